package policyconfig

import (
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/hap-worker/hap-worker/gardener/kube"
)

// A ConfigMap stores the policy under Key, unless Options name another key. If
// that key is missing, OlderKey is read.
const (
	Key      = "policy.yaml"
	OlderKey = "cluster-policy.yaml"
)

var configMaps = schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}

// Options names the ConfigMap with the policy.
type Options struct {
	// Namespace and Name are those of the ConfigMap. Required.
	Namespace, Name string

	// Key is the key of the policy in the ConfigMap. Defaults to the constant Key. If the key is
	// missing, OlderKey is read.
	Key string

	// OnChange is called with the text of the policy when it is first found and whenever
	// it changes. found is false if the policy was removed. Until the first call, there is
	// no policy. Only one goroutine calls OnChange, and the watch does not continue before
	// it returns. Required.
	OnChange func(content string, found bool)

	// Warn is called with one line about a problem that an operator should check. It must
	// not block. By default nothing is called.
	Warn func(string)
}

func (o *Options) complete() error {
	if o.Key == "" {
		o.Key = Key
	}
	if o.Warn == nil {
		o.Warn = func(string) {}
	}
	if o.Namespace == "" || o.Name == "" || o.OnChange == nil {
		return errors.New("gardener: a ConfigMap with a policy needs namespace, name and OnChange")
	}
	return nil
}

// Watch watches one ConfigMap. It needs only the right to list and watch the ConfigMap
// of that name.
type Watch struct {
	*kube.ObjectWatch
	opts Options

	// content and found are the last arguments of OnChange; only the informer's goroutine uses them.
	content string
	found   bool
}

// New returns a Watch. It sends no request to the server.
func New(config *rest.Config, opts Options) (*Watch, error) {
	if err := opts.complete(); err != nil {
		return nil, err
	}
	p := &Watch{opts: opts}
	what := fmt.Sprintf("ConfigMap %s/%s", opts.Namespace, opts.Name)
	watch, err := kube.NewNamedWatch(config, configMaps, opts.Namespace, opts.Name, what, opts.Warn, p.changed)
	if err != nil {
		return nil, err
	}
	p.ObjectWatch = watch
	return p, nil
}

func (p *Watch) changed(o *unstructured.Unstructured) {
	if o == nil {
		p.tell("", false)
		return
	}
	data, _, err := unstructured.NestedStringMap(o.Object, "data")
	content, found := data[p.opts.Key]
	if !found {
		content, found = data[OlderKey]
	}
	if err != nil || !found {
		p.opts.Warn(fmt.Sprintf("%s has neither %s nor %s: there is no policy", p.What, p.opts.Key, OlderKey))
	}
	p.tell(content, found)
}

// tell calls OnChange if the policy's text changed or if the policy appeared or was removed. It
// ignores changes of labels and other keys.
func (p *Watch) tell(content string, found bool) {
	if content == p.content && found == p.found {
		return
	}
	p.content, p.found = content, found
	p.opts.OnChange(content, found)
}
