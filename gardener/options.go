package gardener

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/validation"
)

// Resource is the plural name of the kind that stands for a hyperscaler account.
type Resource string

// The resources that can hold the labels of an account.
const (
	CredentialsBindings Resource = "credentialsbindings" // security.gardener.cloud/v1alpha1
	SecretBindings      Resource = "secretbindings"      // core.gardener.cloud/v1beta1
	Secrets             Resource = "secrets"             // core v1, the older scheme
)

// Preset is the key of Options.Labels that names a set of label keys to start
// from; the other entries change single keys of it.
const Preset = "preset"

// Options name the bindings and their labels.
type Options struct {
	// Namespace holds the bindings and the Shoots. Required.
	Namespace string

	// Resource is the kind of the bindings. Defaults to credentialsbindings.
	Resource Resource

	// Labels renames label keys: from the documented name (hyperscalerType,
	// tenantName, dirty, internal, shared, euAccess) to the key on the object. The
	// entry "preset" may be "default" or "legacy" (hyperscaler-type and
	// tenant-name). Defaults to no renaming.
	Labels map[string]string

	// ShootRuntimeID are the keys of annotations or labels of a Shoot for its runtime id. The first
	// key with a value counts, its annotation before its label. If no key has a value, the Shoot's name
	// is the runtime id. Defaults to infrastructuremanager.kyma-project.io/runtime-id and
	// kcp.provisioner.kyma-project.io/runtime-id.
	ShootRuntimeID []string

	// ShootTenant are the keys of annotations or labels of a Shoot for its tenant, read like
	// ShootRuntimeID. If no key has a value, the tenant is unknown. Defaults to account.
	ShootTenant []string

	// Budget is how long one call tries again before it ends with
	// engine.ErrUnavailable; a paged list has it for each page. The context given
	// to the call may end it earlier. Defaults to 20 s.
	Budget time.Duration

	// Timeout is how long one request for one object may take; a page of a list
	// may take ten times as long. Defaults to 5 s.
	Timeout time.Duration

	// Warn is called with one line about something that an operator should look
	// at, such as a label value that is not understood or a watch that fails. It may
	// be called concurrently and must not block. Defaults to a function that does nothing.
	Warn func(string)
}

// WithDefaults returns a copy with the default of each field that is not set.
func (o Options) WithDefaults() Options {
	if o.Resource == "" {
		o.Resource = CredentialsBindings
	}
	o.Labels = maps.Clone(o.Labels)
	o.ShootRuntimeID = slices.Clone(o.ShootRuntimeID)
	if len(o.ShootRuntimeID) == 0 {
		o.ShootRuntimeID = []string{
			"infrastructuremanager.kyma-project.io/runtime-id",
			"kcp.provisioner.kyma-project.io/runtime-id",
		}
	}
	o.ShootTenant = slices.Clone(o.ShootTenant)
	if len(o.ShootTenant) == 0 {
		o.ShootTenant = []string{"account"}
	}
	if o.Budget == 0 {
		o.Budget = 20 * time.Second
	}
	if o.Timeout == 0 {
		o.Timeout = 5 * time.Second
	}
	if o.Warn == nil {
		o.Warn = func(string) {}
	}
	return o
}

// Validate returns all faults at once, each beginning with the path of its key in the configuration.
// Call it on the result of WithDefaults.
func (o Options) Validate() error {
	var faults []error
	fault := func(path, format string, args ...any) {
		faults = append(faults, fmt.Errorf("gardener."+path+": "+format, args...))
	}
	if o.Namespace == "" {
		fault("namespace", "is missing; name the namespace of the bindings")
	} else if why := validation.IsDNS1123Label(o.Namespace); len(why) > 0 {
		fault("namespace", "%q is no namespace: %s", o.Namespace, strings.Join(why, ", "))
	}
	if _, ok := kinds[o.Resource]; !ok {
		fault("resource", "%q is unknown; it is one of credentialsbindings, secretbindings, secrets", o.Resource)
	}
	if _, err := labelKeys(o.Labels); err != nil {
		faults = append(faults, err)
	}
	checkKeys(fault, "shoots.runtimeID", o.ShootRuntimeID)
	checkKeys(fault, "shoots.tenant", o.ShootTenant)
	if o.Budget < 0 {
		fault("budget", "%v is negative", o.Budget)
	}
	if o.Timeout < 0 {
		fault("timeout", "%v is negative", o.Timeout)
	}
	if o.Budget > 0 && o.Timeout > o.Budget {
		fault("timeout", "%v is more than gardener.budget, %v", o.Timeout, o.Budget)
	}
	return errors.Join(faults...)
}

func checkKeys(fault func(path, format string, args ...any), path string, keys []string) {
	for i, key := range keys {
		if why := validation.IsQualifiedName(key); len(why) > 0 {
			fault(fmt.Sprintf("%s[%d]", path, i), "%q is no key of an annotation or label: %s", key, strings.Join(why, ", "))
		}
	}
}
