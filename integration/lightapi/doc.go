// Package lightapi is a Kubernetes API in this process. It keeps its objects in
// memory, needs no build and starts in milliseconds, so the demo, the development
// stack and most tests run on it.
//
// It serves namespaces, secrets, configmaps, serviceaccounts, events and
// customresourcedefinitions, and each kind that a CustomResourceDefinition
// defines. hapctl, kubectl and client-go's informers work on it: resource versions
// with conflicts, pages of one consistent list, watches with selectors and
// bookmarks, expired versions, finalizers, metadata without the object, tables.
//
// It keeps kube-apiserver's promises about versions, and validates metadata with the rules of apimachinery.
// It does not validate objects against the schemas of definitions, and has one user, no roles, no admission
// except for namespaces, and no conflicts between field managers: it keeps no managedFields. Tests that
// depend on these use integration/kubeapi.
package lightapi
