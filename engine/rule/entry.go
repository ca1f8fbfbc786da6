package rule

import "strings"

// Entry is one parsed rule: it applies to requests of Plan whose regions are
// equal to those that it names. An empty region is any region, which a rule may
// also spell *.
type Entry struct {
	Plan              string
	PlatformRegion    string // input PR
	HyperscalerRegion string // input HR
	Outputs           Outputs
}

// Outputs say what an entry does to the pool of the requests it wins.
type Outputs uint8

// The outputs, in their canonical order.
const (
	OutputPlatformRegion    Outputs = 1 << iota // PR: the platform region becomes part of the hyperscaler type
	OutputHyperscalerRegion                     // HR: so does the hyperscaler region
	OutputShared                                // S: the bindings are shared between tenants
	OutputEUAccess                              // EU: the bindings have euAccess
)

var outputNames = [...]struct {
	name string
	bit  Outputs
}{
	{"PR", OutputPlatformRegion},
	{"HR", OutputHyperscalerRegion},
	{"S", OutputShared},
	{"EU", OutputEUAccess},
}

// Has reports whether every output of want is among o.
func (o Outputs) Has(want Outputs) bool { return o&want == want }

// Names are the outputs as a rule spells them, in canonical order.
func (o Outputs) Names() []string {
	var names []string
	for _, n := range outputNames {
		if o.Has(n.bit) {
			names = append(names, n.name)
		}
	}
	return names
}

func outputNamed(name string) (Outputs, bool) {
	for _, n := range outputNames {
		if n.name == name {
			return n.bit, true
		}
	}
	return 0, false
}

// String is the canonical text of the entry, such as
// "aws(PR=cf-eu11, HR=eu-central-1) -> HR, EU". It parses to the same Entry.
func (e Entry) String() string {
	text := e.Plan
	if in := e.inputs(); len(in) > 0 {
		text += "(" + strings.Join(in, ", ") + ")"
	}
	if out := e.Outputs.Names(); len(out) > 0 {
		text += " -> " + strings.Join(out, ", ")
	}
	return text
}

func (e Entry) inputs() []string {
	var in []string
	if e.PlatformRegion != "" {
		in = append(in, "PR="+e.PlatformRegion)
	}
	if e.HyperscalerRegion != "" {
		in = append(in, "HR="+e.HyperscalerRegion)
	}
	return in
}

// scope is the entry without its outputs: what decides whether it applies, and
// therefore what may be there only once.
func (e Entry) scope() Entry {
	e.Outputs = 0
	return e
}
