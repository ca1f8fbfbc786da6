package policy

import (
	"github.com/hap-worker/hap-worker/engine/document"
	"github.com/hap-worker/hap-worker/engine/spelling"
)

// The kinds of faults and warnings in addition to document's.
const (
	Version   document.Kind = "version"   // a version of the document that is not understood
	Redundant document.Kind = "redundant" // warning: the document means the same without it
)

// text returns the node's string. An empty string, a deceptive character and a value of another type are faults,
// for which it returns "".
func text(n document.Node) string {
	text, ok := n.Text()
	if ok && text == "" {
		n.Fault(document.Syntax, "is an empty string; write a value")
	}
	if n.Strange(spelling.Deceptive) {
		return ""
	}
	return text
}

// need returns the text of a required field, and whether the field has one. A field that is absent or has no
// text is a fault.
func need(o document.Object, field, example string) (string, bool) {
	n, ok := o.Get(field)
	if !ok {
		o.Missing(field, "write %s", example)
		return "", false
	}
	text := text(n)
	return text, text != ""
}

// pathOf reads a required field that must be a path. Any other value is a fault; a text that is no path is
// returned all the same.
func pathOf(o document.Object, field, example string) string {
	path, ok := need(o, field, example)
	if ok && !pathForm.MatchString(path) {
		n, _ := o.Get(field)
		if n.Strange(spelling.Foreign) {
			return path
		}
		n.Fault(document.Syntax, "%q is no path; write it in full, such as %s", path, example)
	}
	return path
}

// revisionOf reads the field revision. It returns "" if the field is absent, which is a fault only if
// required, and for an invalid value, which is always one.
func revisionOf(o document.Object, required bool) string {
	n, ok := o.Get("revision")
	if !ok {
		if required {
			o.Missing("revision", "write one of the form 0.1.0")
		}
		return ""
	}
	revision := n.Spelled() // 1.2 is a number, 0.1.0 a string
	if n.Strange(spelling.Foreign) {
		return ""
	}
	if !revisionForm.MatchString(revision) {
		n.Expected("a revision of three numbers, such as 0.1.0")
		return ""
	}
	return revision
}

// refs reads a list of {path, revision}.
func refs(n document.Node, revised bool, example string, known ...string) []Ref {
	items, _ := n.List()
	var all []Ref
	for _, n := range items {
		if o, ok := n.Object(known...); ok {
			all = append(all, Ref{Path: pathOf(o, "path", example), Revision: revisionOf(o, revised)})
		}
	}
	return all
}
