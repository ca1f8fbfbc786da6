package rule

import "strings"

// Entry is one parsed rule. It applies to requests of Plan with the regions that it names. An empty region means
// any region or none; a rule may write it as *.
type Entry struct {
	Plan              string
	PlatformRegion    string // input PR
	HyperscalerRegion string // input HR
	Outputs           Outputs
}

// Outputs say how an entry changes the pool of the requests that it serves.
type Outputs uint8

// The outputs, in their canonical order.
const (
	OutputPlatformRegion    Outputs = 1 << iota // PR: the platform region becomes part of the hyperscaler type
	OutputHyperscalerRegion                     // HR: the hyperscaler region becomes part of it
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

// Has reports whether o includes every output of want.
func (o Outputs) Has(want Outputs) bool { return o&want == want }

// Names returns the outputs as a rule writes them, in canonical order.
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

// String returns the canonical text of the entry, such as "aws(PR=cf-eu11, HR=eu-central-1) -> HR, EU". If the
// entry's names are valid, Parse reads the same Entry from that text.
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

// scope returns the entry without its outputs. A rule set may have each scope only once, since the scope
// decides whether an entry applies.
func (e Entry) scope() Entry {
	e.Outputs = 0
	return e
}
