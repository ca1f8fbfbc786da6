package rule

import (
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/hap-worker/hap-worker/engine/document"
	"github.com/hap-worker/hap-worker/engine/spelling"
)

// File is the content of a file of rules: hap.rule of a configuration or of a chart's values, rule alone, or
// only a list; the four lists of the older form, below hap or alone; or, without YAML, one rule a line.
type File struct {
	Texts    []string
	Older    *Lists          // nil if the rules are not in the older form
	Plans    map[string]Plan // hap.plans
	Internal []string        // hap.internalGlobalAccounts
	Labels   Labels          // gardener.labels, alone or below config; the zero value if the file has none
	Warnings []Fault         // about keys and limits below hap

	several bool     // hap.multiHyperscalerAccount.allowedGlobalAccounts has tenants
	limits  []string // the keys of hap.multiHyperscalerAccount.limits
}

const noRules = "the file has no rules; write them as hap.rule, as rule, or as a list"

// olderKeys are the keys of the older form.
var olderKeys = []string{KeyPlatformRegion, KeyClusterRegion, KeyShared, KeyEUAccess}

// key is a key in the file that has rules of either form, below hap or alone.
type key struct {
	document.Node

	older bool
}

// ReadFile reads the rules in a file and the keys that File has, without compiling them. It ignores other keys,
// but warns of those below hap. The error is a Faults: the content is no text or no YAML, has no rules, has them
// twice, or a value has the wrong type.
func ReadFile(content []byte) (File, error) {
	if text, err := document.Text(content); err == nil {
		if texts := lines(string(text)); texts != nil {
			return File{Texts: texts}, nil
		}
	}
	var r document.Reader
	var file File
	root, ok := r.One(content, "write rules as hap.rule, as rule, or as a list")
	if ok {
		file.read(&r, root)
	}
	var faults Faults
	for _, f := range r.Faults.Sorted() {
		kind := Syntax
		if f.Kind == document.Missing {
			kind = PlanFault
		}
		faults = append(faults, Fault{Kind: kind, Message: f.Error()})
	}
	return file, faults.orNil()
}

// lines returns the rules of a file with one rule a line, nil for YAML. The first line with more than a comment
// decides: a rule begins with a letter or digit and has no colon; a YAML list or mapping does not begin like
// that. A line that begins with a character other than ASCII also counts as a rule, so that the parser of rules
// reports it.
func lines(content string) []string {
	var texts []string
	for line := range strings.Lines(content) {
		text := WithoutComment(strings.Trim(line, space))
		switch {
		case text == "":
			continue
		case texts == nil && (!alphanumeric(text[0]) && text[0] < utf8.RuneSelf || strings.Contains(text, ":")):
			return nil
		}
		texts = append(texts, text)
	}
	return texts
}

// WithoutComment cuts off a comment: from a # at the beginning or after a space or tab, even within quotes. It
// also cuts off white space around the rest if there was a comment.
func WithoutComment(line string) string {
	for i := range len(line) {
		if line[i] == '#' && (i == 0 || line[i-1] == ' ' || line[i-1] == '\t') {
			return strings.Trim(line[:i], space)
		}
	}
	return line
}

func (f *File) read(r *document.Reader, root document.Node) {
	if root.Sequence() {
		f.Texts = texts(root)
		return
	}
	if !root.Mapping() {
		r.Whole(document.Missing, noRules)
		return
	}
	top, _ := root.Object()
	strange := lookalikes(top, append([]string{"hap", "rule"}, olderKeys...))
	keys := keysOf(top)
	if n, ok := top.Get("hap"); ok && !n.Null() {
		hap, _ := n.Object()
		strange = lookalikes(hap, append([]string{"rule", "plans", "internalGlobalAccounts"}, olderKeys...)) || strange
		keys = append(keysOf(hap), keys...)
		f.plans(hap)
		f.settings(hap)
	}
	f.labels(top)
	switch {
	case len(keys) == 0 && strange: // reported already
		return
	case len(keys) == 0:
		r.Whole(document.Missing, noRules)
		return
	case clash(keys):
		return
	}
	switch keys = ofOneForm(keys); {
	case keys[0].older:
		f.Older = lists(keys)
	case keys[0].Null():
		keys[0].Fault(document.Missing, "rule is empty; write rules as hap.rule, as rule, or as a list")
	default:
		f.Texts = texts(keys[0].Node)
	}
}

// lookalikes adds a fault for each field whose name only looks like one of the known keys, and reports
// whether there is one.
func lookalikes(o document.Object, known []string) bool {
	found := false
	for _, n := range o.Fields {
		if slices.Contains(known, spelling.Fold(n.Name)) {
			found = n.StrangeName(spelling.Foreign) || found
		}
	}
	return found
}

func keysOf(o document.Object) []key {
	var keys []key
	for i, name := range append([]string{"rule"}, olderKeys...) {
		if n, ok := o.Get(name); ok {
			keys = append(keys, key{Node: n, older: i > 0})
		}
	}
	return keys
}

// empty reports whether a key has no rule or member.
func (k key) empty() bool {
	switch {
	case k.Null():
		return true
	case k.older:
		return k.Scalar() == ""
	case k.Sequence():
		items, _ := k.List()
		return len(items) == 0
	}
	return false
}

// clash adds a fault if there are keys of both forms that are not empty, or keys both below hap and beside it, and
// reports whether it did.
func clash(keys []key) bool {
	var older []string
	for _, k := range keys {
		if k.older {
			older = append(older, k.Name)
		}
	}
	full := slices.DeleteFunc(slices.Clone(keys), key.empty)
	for _, k := range full {
		if k.older != full[0].older {
			k.Fault(document.Duplicate, "the file has both rule and the older %s; keep one form", strings.Join(older, ", "))
			return true
		}
	}
	for _, k := range keys {
		if strings.HasPrefix(k.Path, "hap.") != strings.HasPrefix(keys[0].Path, "hap.") {
			k.Fault(document.Duplicate, "the file has both %s and %s; keep one of them", keys[0].Path, k.Path)
			return true
		}
	}
	return false
}

// ofOneForm returns the keys of the form that counts, as for a worker: that of a key that is not empty or, if all
// are empty, rule if it is there.
func ofOneForm(keys []key) []key {
	at := max(0, slices.IndexFunc(keys, func(k key) bool { return !k.empty() }))
	older := keys[at].older
	return slices.DeleteFunc(keys, func(k key) bool { return k.older != older })
}

// lists reads the lists of the older form. An empty value is an empty list.
func lists(keys []key) *Lists {
	all := &Lists{}
	into := map[string]*string{
		KeyPlatformRegion: &all.PlatformRegion, KeyClusterRegion: &all.ClusterRegion, KeyShared: &all.Shared, KeyEUAccess: &all.EUAccess,
	}
	for _, k := range keys {
		switch {
		case k.Mapping() || k.Sequence():
			k.Expected("a string, its members with semicolons between them")
		case !k.Null():
			*into[k.Name] = k.Spelled()
		}
	}
	return all
}

// texts returns the items of the list as texts, "" for an empty item. It returns a mapping or list as YAML on one
// line, so that the check of the text reports it.
func texts(n document.Node) []string {
	items, _ := n.List()
	texts := make([]string, len(items))
	for i, item := range items {
		switch {
		case item.Null():
		case item.Mapping() || item.Sequence():
			texts[i] = item.Source()
		default:
			texts[i] = item.Spelled()
		}
	}
	return texts
}

// plans reads the keys below hap on which the rules depend: internalGlobalAccounts and plans.
func (f *File) plans(hap document.Object) {
	if n, ok := hap.Get("internalGlobalAccounts"); ok && !n.Null() {
		f.Internal = texts(n)
	}
	n, ok := hap.Get("plans")
	if !ok || n.Null() {
		return
	}
	plans, _ := n.Object()
	f.Plans = make(map[string]Plan, len(plans.Fields))
	for _, n := range plans.Fields {
		var plan Plan
		if !n.Null() {
			o, _ := n.Object()
			if n, ok := o.Get("providers"); ok && !n.Null() {
				plan.Providers = texts(n)
			}
			if n, ok := o.Get("default"); ok && !n.Null() {
				plan.Default = n.Spelled()
			}
		}
		f.Plans[n.Name] = plan
	}
}

// labels reads gardener.labels, the names of the labels that accounts have in Gardener. top is a worker's
// configuration, or a chart's values, which have the configuration below config. It ignores unknown keys, which the
// reader of the configuration reports.
func (f *File) labels(top document.Object) {
	for _, name := range []string{"config", "gardener", "labels"} {
		n, ok := top.Get(name)
		switch {
		case name == "config" && (!ok || !n.Mapping()):
			continue
		case !ok:
			return
		case name == "labels":
			f.Labels = labelsOf(n)
			return
		case !n.Mapping():
			return
		}
		top, _ = n.Object()
	}
}

func labelsOf(n document.Node) Labels {
	preset := func(name any) Labels {
		if name == "legacy" {
			return LegacyLabels()
		}
		return StandardLabels()
	}
	if !n.Mapping() {
		return preset(n.Scalar())
	}
	values, _ := n.Object()
	labels := StandardLabels()
	if n, ok := values.Get("preset"); ok {
		labels = preset(n.Scalar())
	}
	for name, key := range map[string]*string{
		"hyperscalerType": &labels.HyperscalerType, "tenantName": &labels.TenantName, "dirty": &labels.Dirty,
		"internal": &labels.Internal, "shared": &labels.Shared, "euAccess": &labels.EUAccess,
	} {
		if n, ok := values.Get(name); ok && !n.Null() {
			*key = n.Spelled()
		}
	}
	return labels
}

// Compile compiles the rules of either form. The file's plans extend and override opts.Plans. Its internal tenants
// replace those of opts, and so do its labels if it has any.
func (f *File) Compile(opts Options) (*Ruleset, error) {
	if opts.Plans == nil {
		opts.Plans = BuiltinPlans()
	}
	plans, err := opts.Plans.With(f.Plans)
	if err != nil {
		return nil, err
	}
	opts.Plans, opts.InternalTenants = plans, f.Internal
	if f.Labels != (Labels{}) {
		opts.Labels = f.Labels
	}
	return f.compile(opts)
}

func (f *File) compile(opts Options) (*Ruleset, error) {
	if f.Older != nil {
		return CompileLists(*f.Older, opts)
	}
	return Compile(f.Texts, opts)
}
