package engine

// Shoot has the fields of a Gardener Shoot that concern accounts.
type Shoot struct {
	Name      string
	Binding   string // the binding that its spec names, "" for none
	RuntimeID string // from its annotations or labels, else its name
	Tenant    string // from its labels or annotations, "" if neither names one
}
