package network

import (
	"slices"

	"github.com/hap-worker/hap-worker/engine/document"
)

// The group, version and kind of the configuration's manifest.
const (
	APIVersion = "gardener.clusters.openmcp.cloud/v1alpha1"
	ConfigKind = "IPAMConfig"
)

// The kinds of faults and warnings in addition to document's.
const (
	Overlap   document.Kind = "overlap"   // two parents have addresses in common
	Reference document.Kind = "reference" // a parent that does not exist
	Size      document.Kind = "size"      // a subnet that its parent has no room for
	Conflict  document.Kind = "conflict"  // one path in two rules that one cluster can match
	Unused    document.Kind = "unused"    // warning: a part of the document without effect
)

// Parse reads an IPAMConfig, YAML or JSON: the manifest, its spec alone, or the fields of the spec alone. It
// returns warnings with and without an error. The error is a [document.Faults] with all faults: first those of
// single fields, then those of fields that contradict each other; faults between rules come last.
func Parse(text []byte) (config *Config, warnings document.Faults, err error) {
	d := decoder{}
	doc, ok := d.One(text, "write spec with parentCIDRs and injectionRules")
	if ok {
		config = d.config(spec(doc))
		d.validate(config)
	}
	for i, fault := range d.Faults {
		if fault.Kind == document.Missing || fault.Kind == document.Unknown {
			d.Faults[i].Kind = document.Syntax // hapctl has always called both kinds syntax here
		}
	}
	if len(d.Faults) > 0 {
		return nil, d.Warnings, d.Faults
	}
	return config, d.Warnings, nil
}

// specFields are the fields of the spec, in their order.
var specFields = []string{"internalStateRefreshCycleDuration", "parentCIDRs", "injectionRules"}

// spec returns the fields of the spec from any of the three forms.
func spec(doc document.Node) document.Object {
	names := doc.Names()
	bare := slices.ContainsFunc(specFields, func(name string) bool { return slices.Contains(names, name) })
	if bare && slices.Contains(names, "spec") {
		doc.Fault(document.Syntax, "the file has spec and, beside it, fields that belong into it; keep one form")
	}
	known := []string{"apiVersion", "kind", "metadata", "spec", "status"}
	if bare {
		all, _ := doc.Object(append(known, specFields...)...)
		return all
	}
	top, ok := doc.Object(known...)
	expect(top, "apiVersion", APIVersion)
	expect(top, "kind", ConfigKind)
	n, there := given(top, "spec")
	if !there {
		if ok {
			doc.Fault(document.Missing, "there is no spec; write it with parentCIDRs and injectionRules")
		}
		return top
	}
	spec, _ := n.Object(specFields...)
	return spec
}

// expect adds a fault if the field is present and its text is not want.
func expect(top document.Object, name, want string) {
	if n, ok := given(top, name); ok {
		if got, isText := n.Text(); isText && got != want {
			n.Fault(document.Value, "%q is not %s", got, want)
		}
	}
}
