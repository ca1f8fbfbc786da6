package gardener

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	"pgregory.net/rapid"

	"github.com/hap-worker/hap-worker/engine"
	_ "github.com/hap-worker/hap-worker/engine/rapidtest" // fixes the seed
	"github.com/hap-worker/hap-worker/engine/suggest"
)

// feed hands the client an object as its informer would: transformed first.
func feed(t testing.TB, c *Client, name, version string, labels, annotations map[string]string) {
	t.Helper()
	obj := &metav1.PartialObjectMetadata{}
	obj.Name, obj.Namespace, obj.ResourceVersion = name, c.opts.Namespace, version
	obj.Labels, obj.Annotations = labels, annotations
	kept, err := c.decoder.account(obj)
	if err != nil {
		t.Fatal(err)
	}
	c.changed(kept)
}

// The cache and the index share each binding: a second copy of 10,000 bindings takes about 7 MB.
func TestBindingIsInMemoryOnce(t *testing.T) {
	t.Parallel()
	c := newOffline(t, Options{})
	obj := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: "a-1", Labels: map[string]string{"hyperscalerType": "aws"}}}
	kept, err := c.decoder.account(obj)
	if err != nil {
		t.Fatal(err)
	}
	c.changed(kept)
	cached, ok := kept.(*account)
	if indexed := c.index.All()[0]; !ok || indexed != &cached.Binding {
		t.Errorf("the cache has %p, the index %p", kept, indexed)
	}
}

// A watch that was cut shows a binding that was deleted and created again as changed. The old one is reported as deleted
// first, once.
func TestBindingThatIsMadeAgain(t *testing.T) {
	t.Parallel()
	c := newOffline(t, Options{})
	var told []string
	c.OnChange(func(b engine.Binding, deleted bool) { told = append(told, fmt.Sprint(b.UID, " ", deleted)) })
	for version, uid := range []types.UID{"u-1", "u-1", "u-2", "u-2"} {
		obj := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
			Name: "a-1", UID: uid, ResourceVersion: strconv.Itoa(version), Labels: map[string]string{"hyperscalerType": "aws"},
		}}
		kept, err := c.decoder.account(obj)
		if err != nil {
			t.Fatal(err)
		}
		c.changed(kept)
	}
	if want := []string{"u-1 false", "u-1 false", "u-1 true", "u-2 false", "u-2 false"}; !slices.Equal(told, want) {
		t.Errorf("told\n%q, want\n%q", told, want)
	}
}

// TestIndexStories runs testdata/index: bindings appear and disappear, and the output shows what the
// client reports. A line of `set` is a name and its labels; keys with a slash other than the cordon
// are annotations.
func TestIndexStories(t *testing.T) {
	t.Parallel()
	datadriven.Walk(t, "testdata/index", func(t *testing.T, path string) {
		var told []string
		opts := Options{Warn: func(line string) { told = append(told, "warning: "+line) }}
		if strings.HasSuffix(path, "legacy") {
			opts.Labels = map[string]string{Preset: "legacy"}
		}
		c := newOffline(t, opts)
		c.OnChange(func(b engine.Binding, deleted bool) {
			told = append(told, fmt.Sprintf("%s: deleted=%t pool=%s", b.Name, deleted, b.Pool().Name()))
		})
		version := 0
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			told = nil
			pool := engine.Pool{EUAccess: d.HasArg("eu"), Shared: d.HasArg("shared")}
			tenant, n := "", 10
			d.MaybeScanArgs(t, "pool", &pool.HyperscalerType)
			d.MaybeScanArgs(t, "tenant", &tenant)
			d.MaybeScanArgs(t, "n", &n)
			switch d.Cmd {
			case "set":
				for line := range strings.Lines(d.Input) {
					version++
					name, labels, annotations := parseObject(line)
					feed(t, c, name, strconv.Itoa(version), labels, annotations)
				}
				return strings.Join(append(told, ""), "\n")
			case "repeat":
				b, _ := c.Cached(d.Input)
				feed(t, c, b.Name, b.ResourceVersion, map[string]string{}, nil)
				return strings.Join(append(told, "told nothing"), "\n")
			case "delete", "delete-missed":
				var obj any = &account{Binding: engine.Binding{Name: d.Input}}
				if d.Cmd == "delete-missed" {
					obj = cache.DeletedFinalStateUnknown{Key: d.Input, Obj: obj}
				}
				c.deleted(obj)
				return strings.Join(append(told, ""), "\n")
			case "claimable":
				seen, all := c.index.Claimable(pool, tenant, d.HasArg("internal"), n)
				return fmt.Sprintf("%s all=%t", names(seen), all)
			case "shared":
				return names(c.Shared(pool))
			case "owned":
				return names(c.Owned(pool, tenant))
			case "barred":
				return strings.Join(c.Barred(pool, tenant, d.HasArg("internal")), " ")
			case "pools":
				var list []string
				for _, p := range c.Pools() {
					list = append(list, p.Name())
				}
				return strings.Join(list, " ")
			case "show":
				b, ok := c.Cached(d.Input)
				return fmt.Sprintf("%+v %t", b, ok)
			case "all":
				return names(sorted(c))
			default:
				t.Fatalf("%s: no command %q", d.Pos, d.Cmd)
				return ""
			}
		})
	})
}

func parseObject(line string) (name string, labels, annotations map[string]string) {
	words := strings.Fields(line)
	labels, annotations = map[string]string{}, map[string]string{}
	for _, word := range words[1:] {
		key, value, _ := strings.Cut(word, "=")
		if strings.Contains(key, "/") && key != LabelCordon {
			annotations[key] = value
		} else {
			labels[key] = value
		}
	}
	return words[0], labels, annotations
}

func names(list []engine.Binding) string {
	var b strings.Builder
	for i, x := range list {
		if i > 0 {
			b.WriteByte(' ')
		}
		b.WriteString(x.Name)
	}
	return b.String()
}

// TestIndexEqualsFilter drives the index with any sequence of changes and
// compares every answer with a filter over all bindings.
func TestIndexEqualsFilter(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(r *rapid.T) {
		c := newOffline(t, Options{})
		naive := map[string]engine.Binding{}
		version := 0
		name := rapid.StringMatching(`a-[0-9]`)
		tenant := rapid.SampledFrom([]string{"", "ga-1", "ga-2"})
		pool := rapid.Custom(func(r *rapid.T) engine.Pool {
			return engine.Pool{
				HyperscalerType: rapid.SampledFrom([]string{"aws", "gcp"}).Draw(r, "type"),
				EUAccess:        rapid.Bool().Draw(r, "eu"), Shared: rapid.Bool().Draw(r, "shared"),
			}
		})
		r.Repeat(map[string]func(*rapid.T){
			"set": func(r *rapid.T) {
				version++
				labels := map[string]string{"hyperscalerType": rapid.SampledFrom([]string{"aws", "gcp"}).Draw(r, "type")}
				if ga := tenant.Draw(r, "tenant"); ga != "" {
					labels["tenantName"] = ga
				}
				for _, key := range []string{"dirty", "internal", "shared", "euAccess", LabelCordon} {
					if v := rapid.SampledFrom([]string{"", "", "true", "false"}).Draw(r, key); v != "" {
						labels[key] = v
					}
				}
				b := name.Draw(r, "name")
				feed(t, c, b, strconv.Itoa(version), labels, nil)
				naive[b] = engine.Binding{
					Name: b, Namespace: "garden-kyma", Kind: "CredentialsBinding", ResourceVersion: strconv.Itoa(version),
					HyperscalerType: labels["hyperscalerType"], Tenant: labels["tenantName"], Dirty: labels["dirty"] == "true",
					Internal: labels["internal"] == "true", Shared: labels["shared"] == "true",
					EUAccess: labels["euAccess"] == "true", Cordoned: labels[LabelCordon] == "true",
				}
			},
			"delete": func(r *rapid.T) {
				b := name.Draw(r, "name")
				c.deleted(&account{Binding: engine.Binding{Name: b}})
				delete(naive, b)
			},
			"": func(r *rapid.T) {
				p, ga := pool.Draw(r, "pool"), rapid.SampledFrom([]string{"ga-1", "ga-2"}).Draw(r, "asks")
				compare(r, c, naive, p, ga, rapid.Bool().Draw(r, "internal"), rapid.IntRange(0, 12).Draw(r, "n"))
			},
		})
	})
}

func compare(r *rapid.T, c *Client, naive map[string]engine.Binding, p engine.Pool, ga string, internal bool, n int) {
	filter := func(keep func(engine.Binding) bool) []engine.Binding {
		var kept []engine.Binding
		for _, b := range naive {
			if keep(b) {
				kept = append(kept, b)
			}
		}
		slices.SortFunc(kept, func(a, b engine.Binding) int { return strings.Compare(a.Name, b.Name) })
		return kept
	}
	same := func(what string, got, want []engine.Binding) {
		if len(got)+len(want) > 0 && !reflect.DeepEqual(got, want) {
			r.Fatalf("%s of %s for %s:\n got %+v\nwant %+v", what, p.Name(), ga, got, want)
		}
	}
	in := func(b engine.Binding) bool { return b.Pool() == p }
	own := func(b engine.Binding) bool { return in(b) && !b.Shared && b.Tenant == ga }
	want := filter(func(b engine.Binding) bool {
		return own(b) && !b.Dirty && !b.Cordoned && (internal || !b.Internal)
	})
	unclaimed := filter(func(b engine.Binding) bool {
		return in(b) && !b.Shared && b.Tenant == "" && !b.Dirty && !b.Internal && !b.Cordoned
	})
	start := suggest.Hash(ga)
	slices.SortFunc(unclaimed, func(a, b engine.Binding) int {
		return cmp.Compare(suggest.Hash(a.Name)-start, suggest.Hash(b.Name)-start)
	})
	want = append(want, unclaimed[:min(n, len(unclaimed))]...)

	got, all := c.index.Claimable(p, ga, internal, n)
	same("claimable", got, want)
	if all != (n >= len(unclaimed)) {
		r.Fatalf("claimable says all=%t with n=%d of %d", all, n, len(unclaimed))
	}
	same("shared", c.Shared(p), filter(func(b engine.Binding) bool {
		return in(b) && b.Shared && !b.Dirty && !b.Internal && !b.Cordoned
	}))
	same("owned", c.Owned(p, ga), filter(own))
	same("all", sorted(c), filter(func(engine.Binding) bool { return true }))
	hold := func(b engine.Binding) bool { return b.Dirty || b.Cordoned || b.Internal && !internal }
	barred := slices.Concat(filter(func(b engine.Binding) bool { return own(b) && hold(b) }),
		filter(func(b engine.Binding) bool { return in(b) && !b.Shared && b.Tenant == "" && hold(b) }))
	if got := strings.Join(c.Barred(p, ga, internal), " "); got != names(barred) {
		r.Fatalf("barred of %s: got %s, want %s", p.Name(), got, names(barred))
	}
	if got, want := slices.Contains(c.Pools(), p), len(filter(in)) > 0; got != want {
		r.Fatalf("pool %s listed: %t, want %t", p.Name(), got, want)
	}
}

// TestRingSpreads tests the purpose of the order: concurrent tenants begin at different bindings, even
// if their names differ in one character only.
func TestRingSpreads(t *testing.T) {
	t.Parallel()
	const bindings, tenants = 1000, 100
	c := newOffline(t, Options{})
	for i := range bindings {
		feed(t, c, fmt.Sprintf("aws-%d", i), strconv.Itoa(i), map[string]string{"hyperscalerType": "aws"}, nil)
	}
	firsts := map[string]int{}
	for i := range tenants {
		seen, all := c.index.Claimable(engine.Pool{HyperscalerType: "aws"}, fmt.Sprintf("ga-%d", i), false, 1)
		if len(seen) != 1 || all {
			t.Fatalf("tenant %d sees %d, all=%t", i, len(seen), all)
		}
		firsts[seen[0].Name]++
	}
	// 100 balls into 1000 arcs of random length leave about 18 shared places.
	if len(firsts) < 70 {
		t.Errorf("%d tenants begin at only %d of %d bindings", tenants, len(firsts), bindings)
	}
}

// TestClaimableBeforeSync: an empty cache must not look like an empty pool, or
// requests would be refused while the worker starts.
func TestClaimableBeforeSync(t *testing.T) {
	t.Parallel()
	c := newOffline(t, Options{})
	if seen, all := c.Claimable(engine.Pool{HyperscalerType: "aws"}, "ga-1", false, 8); all || len(seen) > 0 {
		t.Errorf("before the sync: %d bindings, all=%t", len(seen), all)
	}
}

func BenchmarkClaimable(b *testing.B) {
	for _, size := range []int{100, 10_000} {
		b.Run(strconv.Itoa(size), func(b *testing.B) {
			c := newOffline(b, Options{})
			for i := range size {
				feed(b, c, fmt.Sprintf("aws-%d", i), strconv.Itoa(i), map[string]string{"hyperscalerType": "aws"}, nil)
			}
			b.ReportAllocs()
			for b.Loop() {
				c.index.Claimable(engine.Pool{HyperscalerType: "aws"}, "ga-1", false, 8)
			}
		})
	}
}

func sorted(c *Client) []engine.Binding {
	return slices.SortedFunc(c.All(), func(a, b engine.Binding) int { return strings.Compare(a.Name, b.Name) })
}
