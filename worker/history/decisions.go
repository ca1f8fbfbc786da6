package history

// Decisions is a set of decisions by pool, as bitmaps of 4,096 decisions.
type Decisions map[string]map[int64]*[64]uint64

// First adds a decision of a pool, and reports whether it was not in the set. A reply that answers another
// request or adds network blocks may repeat a decision: the number is then the same. A reply without a number (0
// or less) is always the first.
func (d Decisions) First(pool string, decision int64) bool {
	if decision <= 0 {
		return true
	}
	if d[pool] == nil {
		d[pool] = map[int64]*[64]uint64{}
	}
	page := d[pool][decision>>12]
	if page == nil {
		page = new([64]uint64)
		d[pool][decision>>12] = page
	}
	word, bit := &page[decision>>6&63], uint64(1)<<(decision&63)
	found := *word&bit != 0
	*word |= bit
	return !found
}
