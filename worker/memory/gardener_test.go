package memory_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/hap-worker/hap-worker/engine"
	"github.com/hap-worker/hap-worker/engine/suggest/suggesttest"
	"github.com/hap-worker/hap-worker/worker/memory"
)

// landscape adapts Gardener to the suite.
type landscape struct {
	*memory.Gardener
	t    *testing.T
	kind string
}

func (landscape) Type() string              { return "aws" }
func (landscape) Name(n int) string         { return fmt.Sprint("b-", n) }
func (l landscape) Create(b engine.Binding) { l.Put(b) }
func (l landscape) Remove(name string)      { l.Delete(name) }
func (l landscape) Until(what string, holds func() bool) {
	l.t.Helper()
	if !holds() { // the cache follows at once
		l.t.Errorf("it is not so that %s", what)
	}
}

func (l landscape) Change(name string, edit func(*engine.Binding)) {
	b, err := l.Get(l.t.Context(), name)
	if err != nil {
		l.t.Fatal(err)
	}
	edit(&b)
	l.Put(b)
}

func (l landscape) CreateShoot(s engine.Shoot) {
	l.PutShoot(s)
	if l.kind == "Secret" {
		l.Refer(s.Binding, "CredentialsBinding", "of-"+s.Binding)
	}
}

func TestGardener(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"CredentialsBinding", "SecretBinding", "Secret"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			suggesttest.Run(t, func(t *testing.T) suggesttest.Landscape {
				return landscape{memory.NewGardener("garden-kyma", kind), t, kind}
			})
		})
	}
}

// A held cache suggests old states. After Follow it sees the changes in order.
func TestCacheLags(t *testing.T) {
	t.Parallel()
	g := memory.NewGardener("garden-kyma", "CredentialsBinding", engine.Binding{Name: "b-1", HyperscalerType: "aws"})
	var told []string
	g.OnChange(func(b engine.Binding, deleted bool) {
		told = append(told, fmt.Sprint(b.Name, " ", b.Pool().Name(), " ", b.Tenant, " ", deleted))
	})
	g.Hold()
	seen, _ := g.Cached("b-1")
	claimed, err := g.Claim(t.Context(), seen, engine.Mark{Tenant: "ga-1", Generation: 1})
	if err != nil {
		t.Fatal(err)
	}
	freed, err := g.Free(t.Context(), claimed, "r-1")
	if err != nil {
		t.Fatal(err)
	}
	freed.EUAccess = true
	g.Put(freed)
	g.Delete("b-1")
	g.Put(engine.Binding{Name: "b-2", HyperscalerType: "aws"})
	if stale, there := g.Cached("b-1"); stale != seen || !there || len(told) > 0 {
		t.Errorf("the cache has %+v, and told %q", stale, told)
	}
	g.Follow()
	want := []string{"b-1 aws ga-1 false", "b-1 aws  false", "b-1 aws  true", "b-1 aws+eu  false", "b-1 aws+eu  true", "b-2 aws  false"}
	if !slices.Equal(told, want) {
		t.Errorf("told\n%q, want\n%q", told, want)
	}
}

// A binding that is deleted and created again between two looks of the cache is first told as deleted.
func TestRemade(t *testing.T) {
	t.Parallel()
	g := memory.NewGardener("garden-kyma", "CredentialsBinding", engine.Binding{Name: "b-1", HyperscalerType: "aws", Cordoned: true})
	var told []string
	g.OnChange(func(b engine.Binding, deleted bool) { told = append(told, fmt.Sprint(b.UID, " ", deleted)) })
	g.Remake(engine.Binding{Name: "b-1", HyperscalerType: "aws"})
	if got, want := told, []string{"uid-1 true", "uid-2 false"}; !slices.Equal(got, want) {
		t.Errorf("told %q, want %q", got, want)
	}
	if got, _ := g.Cached("b-1"); got.Cordoned {
		t.Errorf("the cordon is still there: %+v", got)
	}
}
