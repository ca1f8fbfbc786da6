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
// It holds what kube-apiserver promises about versions, and checks metadata with
// the rules of apimachinery. It does not check objects against the schema of their
// definition, knows no other users and no roles, has no admission besides that of
// namespaces, and no conflicts between field managers: it keeps no managedFields. What depends on one of these is proved on
// integration/kubeapi.
package lightapi
