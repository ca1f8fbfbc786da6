package integration_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/hap-worker/hap-worker/cmd/hapctl/app"
	"github.com/hap-worker/hap-worker/counters"
	"github.com/hap-worker/hap-worker/engine/account"
	"github.com/hap-worker/hap-worker/events"
	"github.com/hap-worker/hap-worker/integration/stack"
	"github.com/hap-worker/hap-worker/ledger/shadows"
	"github.com/hap-worker/hap-worker/ledger/storage"
)

// shadowRules let every tenant have several accounts of two clusters each.
const shadowRules = `
hap:
  rule: [aws, azure, gcp, trial -> S, "sap-converged-cloud -> HR, S", azure_lite, preview, free]
  multiHyperscalerAccount: {allowedGlobalAccounts: ["*"], limits: {default: 2}}
  plans: {trial: {providers: [aws], default: aws}}
`

// broker is a KEB that decides by itself: it labels accounts and creates Shoots.
type broker struct {
	*landscape
	shadow   events.Subjects
	versions map[string]string // of every binding, as it was made or as the broker left it
}

func newBroker(t *testing.T, accounts []stack.Account) *broker {
	t.Helper()
	b := &broker{landscape: newLandscape(t, shadowRules, accounts), versions: map[string]string{}}
	b.shadow = b.subjects.Shadow()
	maps.Copy(b.versions, b.current())
	return b
}

// current are the resourceVersions of all bindings.
func (b *broker) current() map[string]string {
	b.t.Helper()
	list, err := b.api.Resource(bindingsResource).Namespace(b.stack.Target.Namespace).List(b.ctx, metav1.ListOptions{})
	if err != nil {
		b.t.Fatal(err)
	}
	versions := map[string]string{}
	for _, item := range list.Items {
		versions[item.GetName()] = item.GetResourceVersion()
	}
	return versions
}

// marks writes labels as the broker does; nil takes one off.
func (b *broker) marks(binding string, labels map[string]any) {
	b.t.Helper()
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"labels": labels}})
	if err != nil {
		b.t.Fatal(err)
	}
	written, err := b.api.Resource(bindingsResource).Namespace(b.stack.Target.Namespace).
		Patch(b.ctx, binding, types.MergePatchType, patch, metav1.PatchOptions{})
	if err != nil {
		b.t.Fatal(err)
	}
	b.versions[binding] = written.GetResourceVersion()
}

func (b *broker) claims(binding, tenant string) {
	b.marks(binding, map[string]any{"tenantName": tenant})
}

// wouldAnswer returns what the shadow would answer: it is not compared before the Shoot is there.
func (b *broker) wouldAnswer(e events.Event) events.Reply {
	b.t.Helper()
	ledger := storage.NewLedger(b.js, b.shadow, "/integration")
	var r events.Reply
	eventually(b.ctx, b.t, func() error {
		stored, found, err := ledger.Last(b.ctx, e.ReplySubject(b.shadow))
		if r = stored.Reply; err == nil && (!found || r.Status == events.StatusSealed) {
			err = fmt.Errorf("the shadow has decided nothing for %s", e.RuntimeID)
		}
		return err
	})
	return r
}

// compared waits for the comparison of an event.
func (b *broker) compared(e events.Event, want shadows.ComparisonResult) {
	b.t.Helper()
	c := b.comparison(e)
	if c.Result != want {
		b.t.Errorf("%s: %s (%s), want %s: %+v", e.RuntimeID, c.Result, c.Message, want, c.Reply.Decision)
	}
}

func (b *broker) comparison(e events.Event) shadows.Comparison {
	b.t.Helper()
	var found *shadows.Comparison
	eventually(b.ctx, b.t, func() error {
		err := shadows.NewComparisons(b.js, b.shadow).Each(b.ctx, func(c shadows.Comparison) error {
			if c.Reply.RequestID == e.ID {
				found = &c
			}
			return nil
		})
		if err == nil && found == nil {
			err = fmt.Errorf("%s is not compared", e.RuntimeID)
		}
		return err
	})
	return *found
}

// follows waits until the shadow's Redis has so many runtimes on a binding.
func (b *broker) follows(pool, binding string, state account.State, tenant string, runtimes int) {
	b.t.Helper()
	store := counters.New(b.byHand(), "hap-shadow")
	eventually(b.ctx, b.t, func() error {
		rec, err := store.Binding(b.ctx, pool, binding)
		if err == nil && (rec.State != state || rec.Tenant != tenant || rec.Count != runtimes) {
			err = fmt.Errorf("the shadow has %s as %+v, want %s of %q with %d", binding, rec, state, tenant, runtimes)
		}
		return err
	})
}

func withPlan(e events.Event, plan string) events.Event {
	e.Provision.Plan = plan
	return e
}

// one of the bindings that is none of these.
func another(from []string, not ...string) string {
	return from[slices.IndexFunc(from, func(name string) bool { return !slices.Contains(not, name) })]
}

// showsDifferences holds hapctl against what was counted.
func (b *broker) showsDifferences(counted map[shadows.ComparisonResult]int) {
	b.t.Helper()
	out := b.hapctlDiffers("-o", "json")
	var v struct {
		Comparisons []struct {
			RuntimeID string
			Result    shadows.ComparisonResult
			Reply     events.Reply
		}
		Summary     map[shadows.ComparisonResult]int
		Differences int
	}
	if err := json.Unmarshal([]byte(out), &v); err != nil {
		b.t.Fatal(err)
	}
	differences := 0
	for result, n := range counted {
		if v.Summary[result] != n {
			b.t.Errorf("hapctl has %s %d times, want %d", result, v.Summary[result], n)
		}
		if result.Differs() {
			differences += n
		}
	}
	if v.Differences != differences || len(v.Comparisons) != differences || len(v.Summary) != len(counted) {
		b.t.Errorf("hapctl has %d differences and lists %d, want %d:\n%s", v.Differences, len(v.Comparisons), differences, out)
	}
	for _, c := range v.Comparisons {
		if c.Reply.Decision == nil || c.Reply.Decision.Rule == "" || c.Reply.Decision.Times == nil {
			b.t.Errorf("the decision record of %s is %+v", c.RuntimeID, c.Reply.Decision)
		}
	}
	if out := b.hapctlDiffers("--runtime", "rt-pool"); !strings.Contains(out, "the shadow by rule azure from pool azure; KEB from pool aws") {
		b.t.Errorf("hapctl says\n%s", out)
	}
}

// hapctlDiffers runs hapctl migrate compare, which is to find a difference.
func (b *broker) hapctlDiffers(args ...string) string {
	b.t.Helper()
	var out, talk bytes.Buffer
	args = append([]string{"migrate", "compare", "--config", b.stack.Config}, args...)
	if code := app.Run(b.ctx, args, strings.NewReader(""), &out, &talk); code != 5 {
		b.t.Fatalf("hapctl %v: exit code %d, %s%s", args, code, out.String(), talk.String())
	}
	return out.String()
}

// untouched fails the test if anything was written that is not the shadow's own.
func (b *broker) untouched() {
	b.t.Helper()
	for name, version := range b.current() {
		if version != b.versions[name] {
			b.t.Errorf("binding %s has resourceVersion %s, the broker left it at %s", name, version, b.versions[name])
		}
	}
	keys, err := b.byHand().Keys(b.ctx, "*").Result()
	if err != nil || len(keys) == 0 {
		b.t.Errorf("keys in Redis: %v, %v", keys, err)
	}
	for _, key := range keys {
		if !strings.HasPrefix(key, "hap-shadow:") {
			b.t.Errorf("key %s in Redis", key)
		}
	}
	for _, name := range []string{events.StreamReplies, events.StreamWaiting, events.StreamDead} {
		stream, err := b.js.Stream(b.ctx, name)
		if err != nil {
			b.t.Fatal(err)
		}
		if state := stream.CachedInfo().State; state.LastSeq != 0 {
			b.t.Errorf("stream %s had %d messages", name, state.LastSeq)
		}
	}
	eventually(b.ctx, b.t, func() error {
		stream, err := b.js.Stream(b.ctx, events.StreamEvents)
		if err == nil && stream.CachedInfo().State.Msgs != 0 {
			err = fmt.Errorf("%d events are left", stream.CachedInfo().State.Msgs)
		}
		return err
	})
}
