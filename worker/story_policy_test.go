package worker_test

import "github.com/hap-worker/hap-worker/engine/policy"

func refusal(err error) string {
	if err == nil {
		return ""
	}
	return "refused: " + err.Error()
}

func (w *world) setPolicy(c command) (string, error) {
	switch {
	case c.name == "policy" && c.has("expected"):
		w.policies.Expect("ConfigMap hap-policy")
	case c.name == "policy" && c.has("gone"):
		w.policies.DropPolicy()
	case c.name == "policy":
		if said := refusal(w.policies.TakePolicy([]byte(c.input))); said != "" {
			return said, nil
		}
	case c.name == "catalog":
		catalog, err := policy.LoadFile("", []byte(c.input))
		if err != nil {
			return "", err
		}
		w.policies.TakeCatalog(catalog)
	default:
		instances, err := policy.ParseTypeInstances([]byte(c.input))
		if err != nil {
			return "", err
		}
		w.policies.TakeTypeInstances(instances)
	}
	return "", nil
}
