package account_test

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"github.com/hap-worker/hap-worker/engine"
	"github.com/hap-worker/hap-worker/engine/account"
	"github.com/hap-worker/hap-worker/engine/account/accounttest"
)

// TestGathering derives Redis from ledger, labels and Shoots. Each paragraph of a
// scenario begins anew; its lines are
//
//	RUNTIME assigned|gone|waiting|refused seq=N [on=BINDING] [tenant=T] [request=Q] [pool=P] [claimed]
//	binding NAME [pool=P] [tenant=T] [g=N] [dirty]
//	shoot NAME on=BINDING [id=RUNTIME]
//	waits RUNTIME
//
// and what comes of them are the pools, then the directory where it is more than
// the pools' runtimes.
func TestGathering(t *testing.T) {
	t.Parallel()
	datadriven.Walk(t, "testdata/gather", func(t *testing.T, path string) {
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			return gathered(gather(t, d.Input), poolsOf(d.Input))
		})
	})
}

// gather adds the lines of a paragraph to a gathering, in their order, and the Shoots last.
func gather(t testing.TB, text string) *account.Gathering {
	t.Helper()
	g, shoots := account.NewGathering(), []engine.Shoot(nil)
	for row := range strings.SplitSeq(text, "\n") {
		f := words(strings.Fields(row))
		switch {
		case len(f) == 0:
		case f[0] == "binding":
			b := engine.ParsePool(f.text("pool", "p"))
			g.Binding(engine.Binding{
				Name: f[1], HyperscalerType: b.HyperscalerType, EUAccess: b.EUAccess, Shared: b.Shared,
				Tenant: f.text("tenant", ""), Generation: f.number(t, "g"), Dirty: f.has("dirty"),
			})
		case f[0] == "waits":
			g.Waits(f[1])
		case f[0] == "shoot":
			shoots = append(shoots, engine.Shoot{Name: f[1], RuntimeID: f.text("id", f[1]), Binding: f.text("on", ""), Tenant: f.text("of", "")})
		default:
			state := account.RuntimeState(f[1])
			if state == "nothing" {
				state = ""
			}
			g.Answer(account.Answer{
				Runtime: f[0], State: state, Sequence: f.number(t, "seq"), Binding: f.text("on", ""),
				Tenant: f.text("tenant", ""), Request: f.text("request", ""), Pool: f.text("pool", "p"), Claimed: f.has("claimed"),
				Generation: f.number(t, "g"),
			})
		}
	}
	for i := range shoots { // as by a list that was cut off, and begins anew
		g.Shoot(shoots[len(shoots)-1-i])
	}
	g.NoShoots()
	for _, s := range shoots {
		g.Shoot(s)
	}
	return g
}

// poolsOf returns the pools that a paragraph names, sorted, and the one that it need not name.
func poolsOf(text string) []string {
	pools := map[string]bool{"p": true}
	for word := range strings.FieldsSeq(text) {
		if pool, ok := strings.CutPrefix(word, "pool="); ok {
			pools[pool] = true
		}
	}
	return slices.Sorted(maps.Keys(pools))
}

func gathered(g *account.Gathering, pools []string) string {
	contents, installed := g.Contents(), map[string]map[string]account.Runtime{}
	var out []string
	for _, pool := range pools {
		s := contents.Pool(pool)
		installed[pool] = maps.Collect(s.EachRuntime())
		if s.Sequence > 0 || len(s.Bindings)+len(installed[pool]) > 0 {
			out = append(out, "pool "+pool+" "+accounttest.Snapshot(s))
		}
	}
	for n := range account.Buckets {
		name := account.BucketName(n)
		d, there := contents.Bucket(name)
		if !there {
			out = append(out, name+" is no bucket")
		}
		for _, id := range slices.Sorted(maps.Keys(d.Places)) {
			place := d.Places[id]
			if _, there := installed[place.Pool][id]; !there {
				out = append(out, fmt.Sprintf("%s %s of %d", id, accounttest.Place(place), d.Sequence))
			}
			if account.BucketOf(id) != name {
				out = append(out, id+" is in the wrong bucket")
			}
		}
	}
	return strings.Join(out, "\n")
}

// words are the words of a line; a value is written key=value.
type words []string

func (w words) has(word string) bool { return slices.Contains(w, word) }

func (w words) text(key, otherwise string) string {
	for _, word := range w {
		if value, ok := strings.CutPrefix(word, key+"="); ok {
			if value == "-" {
				return ""
			}
			return value
		}
	}
	return otherwise
}

func (w words) number(t testing.TB, key string) int64 {
	t.Helper()
	n, err := strconv.ParseInt(w.text(key, "0"), 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// A key that was written into Redis by hand may name a bucket that there is not.
func TestBucketsThatThereAreNot(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"rt:64", "rt:", "rt:junk", "aws"} {
		if d, there := account.NewGathering().Contents().Bucket(name); there || d.Places != nil {
			t.Errorf("%s is a bucket with %+v", name, d)
		}
	}
}
