package rule

// none stands for a position if there is no rule.
const none int32 = -1

// index finds the most specific entry of one plan for a pair of regions with at most three map look-ups,
// however many entries there are. It stores positions of entries, not outputs. Regions are numbered, so that
// the key of a pair is one integer. A pair is looked up only if entries name both of its regions.
type index struct {
	any           int32
	byPlatform    map[string]region
	byHyperscaler map[string]region
	byBoth        map[uint64]int32
}

// region is a region that some entry names.
type region struct {
	id   uint32
	rule int32 // of the entry with this region only; none if there is no such entry
}

func newIndex() index {
	return index{
		any:           none,
		byPlatform:    make(map[string]region),
		byHyperscaler: make(map[string]region),
		byBoth:        make(map[uint64]int32),
	}
}

func (x *index) add(e Entry, rule int32) {
	switch {
	case e.PlatformRegion != "" && e.HyperscalerRegion != "":
		x.byBoth[pair(numbered(x.byPlatform, e.PlatformRegion), numbered(x.byHyperscaler, e.HyperscalerRegion))] = rule
	case e.PlatformRegion != "":
		x.byPlatform[e.PlatformRegion] = region{id: numbered(x.byPlatform, e.PlatformRegion).id, rule: rule}
	case e.HyperscalerRegion != "":
		x.byHyperscaler[e.HyperscalerRegion] = region{id: numbered(x.byHyperscaler, e.HyperscalerRegion).id, rule: rule}
	default:
		x.any = rule
	}
}

// numbered returns the region of a name, and numbers it if it is new.
func numbered(regions map[string]region, name string) region {
	r, ok := regions[name]
	if !ok {
		r = region{id: uint32(len(regions)), rule: none}
		regions[name] = r
	}
	return r
}

func pair(platform, hyperscaler region) uint64 {
	return uint64(platform.id)<<32 | uint64(hyperscaler.id)
}

// find returns the position of the matching entry with the most inputs, or none. If two entries with one
// input each match, there is a third with both inputs: other sets do not compile.
func (x *index) find(platformRegion, hyperscalerRegion string) int32 {
	pr, okPR := x.byPlatform[platformRegion]
	hr, okHR := x.byHyperscaler[hyperscalerRegion]
	if okPR && okHR {
		if rule, ok := x.byBoth[pair(pr, hr)]; ok {
			return rule
		}
	}
	if okPR && pr.rule != none {
		return pr.rule
	}
	if okHR && hr.rule != none {
		return hr.rule
	}
	return x.any
}
