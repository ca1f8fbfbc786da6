package policy

import "github.com/hap-worker/hap-worker/engine/document"

// TypeInstance is a resource that the system already has, such as credentials. Its value may be a secret:
// never log it or put it into a message.
type TypeInstance struct {
	ID    string
	Type  Ref
	Value any // as document.Node.Value returns it
}

// ParseTypeInstances reads a YAML list of {id, typeRef: {path, revision}, value};
// it ignores other fields, and an empty file is an empty list. The error is a
// [document.Faults].
func ParseTypeInstances(content []byte) ([]TypeInstance, error) {
	r := document.Reader{Private: true}
	docs := r.All(content)
	if len(r.Faults) > 0 || len(docs) == 0 {
		return nil, r.Faults.OrNil()
	}
	if len(docs) > 1 {
		docs[1].Fault(document.Duplicate, "a second YAML document begins here; keep one list")
	}
	items, _ := docs[0].List()
	var all []TypeInstance
	seen := map[string]int{}
	for _, n := range items {
		t := typeInstance(n)
		if first, twice := seen[t.ID]; twice && t.ID != "" {
			n.Fault(document.Duplicate, "the id %s is there twice, first on line %d; ids are unique", t.ID, first)
		} else {
			seen[t.ID] = n.Line
		}
		all = append(all, t)
	}
	if err := r.Faults.Sorted().OrNil(); err != nil {
		return nil, err
	}
	return all, nil
}

func typeInstance(n document.Node) TypeInstance {
	var t TypeInstance
	o, ok := n.Object()
	if !ok {
		return t
	}
	t.ID, _ = need(o, "id", "that of the TypeInstance")
	t.Type = typeRef(o, true)
	if value, ok := o.Get("value"); ok {
		t.Value = value.Value()
	}
	return t
}
