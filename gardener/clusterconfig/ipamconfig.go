package clusterconfig

import (
	"errors"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/hap-worker/hap-worker/gardener/kube"
)

var ipamConfigs = schema.GroupVersionResource{Group: "gardener.clusters.openmcp.cloud", Version: "v1alpha1", Resource: "ipamconfigs"}

// IPAMConfigOptions select the IPAMConfig with the network ranges.
type IPAMConfigOptions struct {
	// Name of the IPAMConfig, which has no namespace. Required.
	Name string
	// OnChange is called with the whole object as JSON, when it is first found, whenever it has changed
	// and after each new list. found is false once it is deleted. One goroutine calls it, and the watch
	// waits for it. Required.
	OnChange func(content []byte, found bool)
	// Warn is called with one line about something that an operator should look at.
	// It must not block. Required.
	Warn func(string)
}

// IPAMConfig watches one IPAMConfig. It needs only the right to list and watch the IPAMConfig of that
// name.
type IPAMConfig struct{ *kube.ObjectWatch }

// NewIPAMConfig returns an IPAMConfig, and sends no request yet.
func NewIPAMConfig(config *rest.Config, opts IPAMConfigOptions) (*IPAMConfig, error) {
	if opts.Name == "" || opts.OnChange == nil || opts.Warn == nil {
		return nil, errors.New("gardener: an IPAMConfig needs name, OnChange and Warn")
	}
	watch, err := kube.NewNamedWatch(config, ipamConfigs, "", opts.Name, "IPAMConfig "+opts.Name, opts.Warn, func(o *unstructured.Unstructured) {
		if o == nil {
			opts.OnChange(nil, false)
			return
		}
		content, err := o.MarshalJSON()
		if err != nil {
			opts.Warn("IPAMConfig " + opts.Name + " cannot be written as JSON: " + err.Error())
			return
		}
		opts.OnChange(content, true)
	})
	if err != nil {
		return nil, err
	}
	return &IPAMConfig{watch}, nil
}
