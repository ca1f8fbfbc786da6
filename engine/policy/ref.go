package policy

import (
	"cmp"
	"regexp"
	"strings"

	"github.com/Masterminds/semver/v3"
)

// Ref names something of the catalog: an Interface, an Implementation, a Type or
// an Attribute. In a constraint an empty Revision stands for any.
type Ref struct {
	Path     string `json:"path"`
	Revision string `json:"revision"`
}

// String is path:revision, and the path alone where there is no revision.
func (r Ref) String() string {
	if r.Revision == "" {
		return r.Path
	}
	return r.Path + ":" + r.Revision
}

// covers reports whether r, as a constraint, names ref: with the same path, and the same revision or none.
func (r Ref) covers(ref Ref) bool {
	return r.Path == ref.Path && (r.Revision == "" || r.Revision == ref.Revision)
}

// root begins every path.
const root = "cap."

// Anything is the key of the rule for interfaces that no other key matches.
const Anything = "cap.*"

// Kubernetes is the Type that is available in every revision: the system runs on it.
const Kubernetes = "cap.core.type.platform.kubernetes"

// providerAttribute begins the path of the attribute that names a hyperscaler.
const providerAttribute = "cap.attribute.cloud.provider."

var (
	pathForm     = regexp.MustCompile(`^cap(\.[A-Za-z0-9_-]+)+$`)
	revisionForm = regexp.MustCompile(`^(0|[1-9]\d{0,17})\.(0|[1-9]\d{0,17})\.(0|[1-9]\d{0,17})$`)
)

// ParseRef reads PATH or PATH:REVISION without checking either.
func ParseRef(text string) Ref {
	path, revision, _ := strings.Cut(text, ":")
	return Ref{Path: path, Revision: revision}
}

// compareRevisions orders by SemVer; both have revisionForm.
func compareRevisions(a, b string) int {
	if a == b {
		return 0
	}
	x, errX := semver.StrictNewVersion(a)
	y, errY := semver.StrictNewVersion(b)
	if errX != nil || errY != nil {
		return cmp.Compare(a, b)
	}
	return x.Compare(y)
}

// byPath orders interfaces and implementations: by path, then the newest revision first.
func byPath(a, b Ref) int {
	return cmp.Or(cmp.Compare(a.Path, b.Path), compareRevisions(b.Revision, a.Revision))
}
