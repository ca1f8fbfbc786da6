package policy

import "go.yaml.in/yaml/v3"

// TypeInstance is something that the system has: credentials, or a resource that
// exists. Its value may be a secret: it belongs into no log and no message.
type TypeInstance struct {
	ID    string
	Type  Ref
	Value any // in the types that encoding/json reads into
}

// ParseTypeInstances reads a YAML list of {id, typeRef: {path, revision}, value};
// other fields are passed over, and an empty file is an empty list. The error is
// a Faults with everything that is wrong.
func ParseTypeInstances(content []byte) ([]TypeInstance, error) {
	r := reader{private: true}
	docs := r.documents(content)
	if len(r.faults) > 0 || len(docs) == 0 {
		return nil, r.faults.orNil()
	}
	if len(docs) > 1 {
		r.fault(docs[1].Line, "", Duplicate, "a second YAML document begins here; keep one list")
	}
	items, _ := r.list(docs[0], "")
	var all []TypeInstance
	seen := map[string]int{}
	for i, n := range items {
		t := r.typeInstance(n, item("", i))
		if first, twice := seen[t.ID]; twice && t.ID != "" {
			r.fault(n.Line, item("", i), Duplicate, "the id %s is there twice, first on line %d; ids are unique", t.ID, first)
		}
		seen[t.ID] = n.Line
		all = append(all, t)
	}
	if err := r.faults.orNil(); err != nil {
		return nil, err
	}
	return all, nil
}

func (r *reader) typeInstance(n *yaml.Node, at string) TypeInstance {
	var t TypeInstance
	o, ok := r.object(n, at)
	if !ok {
		return t
	}
	t.ID, _ = r.need(o, "id", "that of the TypeInstance")
	t.Type = r.typeRef(o, true)
	if value, ok := o.fields["value"]; ok {
		t.Value = r.value(value, below(at, "value"))
	}
	return t
}
