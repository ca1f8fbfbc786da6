package engine

// Shoot is a cluster as far as accounts go.
type Shoot struct {
	Name      string
	Binding   string // that it names in its spec, "" for none
	RuntimeID string // from its annotations or labels, else its name
	Tenant    string // from its labels or annotations, "" where they do not tell
}
