package lightapi

import (
	"net/http"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/version"
)

// verbs are the verbs of each resource that is no subresource.
var verbs = metav1.Verbs{"create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"}

// discover answers the discovery paths. ok is false for any other path.
func (s *Server) discover(w http.ResponseWriter, r *http.Request) (ok bool, err error) {
	path := strings.TrimSuffix(r.URL.Path, "/")
	var found any
	switch parts := strings.Split(strings.TrimPrefix(path, "/"), "/"); {
	case path == "/version":
		found = version.Info{Major: "1", Minor: "36", GitVersion: "v1.36.0+light", Platform: "in-process"}
	case path == "/api":
		found = &metav1.APIVersions{TypeMeta: metav1.TypeMeta{Kind: "APIVersions"}, Versions: []string{"v1"}}
	case path == "/apis":
		found = &metav1.APIGroupList{TypeMeta: metav1.TypeMeta{Kind: "APIGroupList", APIVersion: "v1"}, Groups: s.groups()}
	case parts[0] == "apis" && len(parts) == 2:
		found = s.group(parts[1])
	case parts[0] == "apis" && len(parts) == 3:
		found = s.resources(parts[1], parts[2])
	case parts[0] == "api" && len(parts) == 2:
		found = s.resources("", parts[1])
	default:
		return false, nil
	}
	if found == nil {
		return false, nil
	}
	if r.Method != http.MethodGet {
		return true, apiError(http.StatusMethodNotAllowed, metav1.StatusReasonMethodNotAllowed, "only GET is supported")
	}
	if _, err := negotiate(r.Header); err != nil {
		return true, err
	}
	return true, answer(w, http.StatusOK, found)
}

// groups returns the API groups of all kinds except the core group.
func (s *Server) groups() []metav1.APIGroup {
	groups := []metav1.APIGroup{}
	for _, k := range s.store.kinds() { // sorted by group
		if k.group == "" {
			continue
		}
		served := metav1.GroupVersionForDiscovery{GroupVersion: k.groupVersion().String(), Version: k.version}
		if last := len(groups) - 1; last < 0 || groups[last].Name != k.group {
			groups = append(groups, metav1.APIGroup{Name: k.group, PreferredVersion: served})
		}
		group := &groups[len(groups)-1]
		if !slices.Contains(group.Versions, served) {
			group.Versions = append(group.Versions, served)
		}
	}
	return groups
}

func (s *Server) group(name string) any {
	for _, group := range s.groups() {
		if group.Name == name {
			group.TypeMeta = metav1.TypeMeta{Kind: "APIGroup", APIVersion: "v1"}
			return &group
		}
	}
	return nil
}

// resources returns the resources of a version of a group, nil if there are none.
func (s *Server) resources(group, version string) any {
	list := &metav1.APIResourceList{TypeMeta: metav1.TypeMeta{Kind: "APIResourceList", APIVersion: "v1"}}
	for _, k := range s.store.kinds() {
		if k.group != group || k.version != version {
			continue
		}
		list.GroupVersion = k.groupVersion().String()
		list.APIResources = append(list.APIResources, metav1.APIResource{
			Name: k.plural, SingularName: k.singular, Namespaced: k.namespaced, Kind: k.name, Verbs: verbs,
			ShortNames: k.shortNames, Categories: k.categories,
		})
		if k.status {
			list.APIResources = append(list.APIResources, metav1.APIResource{
				Name: k.plural + "/status", Namespaced: k.namespaced, Kind: k.name, Verbs: metav1.Verbs{"get", "patch", "update"},
			})
		}
	}
	if list.GroupVersion == "" {
		return nil
	}
	return list
}
