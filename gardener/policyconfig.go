package gardener

import (
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
)

// The keys under which a ConfigMap has a policy. The older one is read where the
// other is not there.
const (
	PolicyKey      = "policy.yaml"
	OlderPolicyKey = "cluster-policy.yaml"
)

var configMaps = schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}

// PolicyConfigOptions say which ConfigMap has the policy.
type PolicyConfigOptions struct {
	// Namespace and Name are those of the ConfigMap. Required.
	Namespace, Name string

	// Key is where the policy is. Defaults to PolicyKey; where it is not there,
	// OlderPolicyKey is read.
	Key string

	// OnChange is called with the policy whenever its text has changed, also with
	// the first one that is found; found is false once there is none any more. The
	// ConfigMap is absent until OnChange was called. One goroutine calls it, and it
	// holds up the watch while it runs. Required.
	OnChange func(content string, found bool)

	// Warn is called with one line about something that an operator should look
	// at. It must not block. Defaults to nothing.
	Warn func(string)
}

func (o *PolicyConfigOptions) complete() error {
	if o.Key == "" {
		o.Key = PolicyKey
	}
	if o.Warn == nil {
		o.Warn = func(string) {}
	}
	if o.Namespace == "" || o.Name == "" || o.OnChange == nil {
		return errors.New("gardener: a ConfigMap with a policy needs namespace, name and OnChange")
	}
	return nil
}

// PolicyConfig watches one ConfigMap, and no other: it needs the right to list
// and watch the ConfigMap of that name only.
type PolicyConfig struct {
	*objectWatch
	opts PolicyConfigOptions

	content string // what OnChange was called with last; the informer's goroutine has it
	found   bool
}

// NewPolicyConfig makes a PolicyConfig without asking the server anything.
func NewPolicyConfig(config *rest.Config, opts PolicyConfigOptions) (*PolicyConfig, error) {
	if err := opts.complete(); err != nil {
		return nil, err
	}
	p := &PolicyConfig{opts: opts}
	what := fmt.Sprintf("ConfigMap %s/%s", opts.Namespace, opts.Name)
	watch, err := newObjectWatch(config, configMaps, opts.Namespace, opts.Name, what, opts.Warn, p.changed)
	if err != nil {
		return nil, err
	}
	p.objectWatch = watch
	return p, nil
}

func (p *PolicyConfig) changed(o *unstructured.Unstructured) {
	if o == nil {
		p.tell("", false)
		return
	}
	data, _, err := unstructured.NestedStringMap(o.Object, "data")
	content, found := data[p.opts.Key]
	if !found {
		content, found = data[OlderPolicyKey]
	}
	if err != nil || !found {
		p.opts.Warn(fmt.Sprintf("%s has neither %s nor %s: there is no policy", p.what, p.opts.Key, OlderPolicyKey))
	}
	p.tell(content, found)
}

// tell passes on what has changed; labels and other keys have not.
func (p *PolicyConfig) tell(content string, found bool) {
	if content == p.content && found == p.found {
		return
	}
	p.content, p.found = content, found
	p.opts.OnChange(content, found)
}
