package page

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/hap-worker/hap-worker/events"
)

// TestTenureGoesOn is an account that drains and gains a cluster of its tenant again: it is not empty.
func TestTenureGoesOn(t *testing.T) {
	t.Parallel()
	at := time.Unix(1_700_000_000, 0)
	reply := func(minute int, r events.Reply) events.Stored {
		r.GlobalAccountID, r.Binding = "ga-1", &events.Binding{Name: "b-1"}
		return events.Stored{Reply: r, Time: at.Add(time.Duration(minute) * time.Minute)}
	}
	first := events.Reply{Status: events.StatusAssigned, RuntimeID: "rt-1"}
	left := events.Reply{Status: events.StatusReleased, RuntimeID: "rt-1", Draining: true}
	again := events.Reply{Status: events.StatusAssigned, RuntimeID: "rt-2"}
	for name, c := range map[string]struct {
		replies []events.Stored // the newest first
		emptied time.Time
	}{
		"it drains":            {[]events.Stored{reply(2, left), reply(1, first)}, at.Add(2 * time.Minute)},
		"its tenant came back": {[]events.Stored{reply(3, again), reply(2, left), reply(1, first)}, time.Time{}},
	} {
		all := tenures(c.replies)
		if len(all) != 1 || !all[0].Emptied.Equal(c.emptied) {
			t.Errorf("%s: %+v", name, all)
		}
	}
}

// TestTenureBeganBefore: the reply to the claim may be purged, or may not be shown. Then it is unknown when the tenant came.
func TestTenureBeganBefore(t *testing.T) {
	t.Parallel()
	at := time.Unix(1_700_000_000, 0)
	for name, c := range map[string]struct {
		binding events.Binding
		want    time.Time
	}{
		"its first reply claimed":     {events.Binding{Name: "b-1", Claimed: true}, at},
		"its first reply is purged":   {events.Binding{Name: "b-1"}, time.Time{}},
		"no claim of a shared one is": {events.Binding{Name: "b-1", Shared: true}, at},
	} {
		r := events.Reply{Status: events.StatusAssigned, RuntimeID: "rt-2", GlobalAccountID: "ga-1", Binding: &c.binding}
		if all := tenures([]events.Stored{{Reply: r, Time: at}}); len(all) != 1 || !all[0].From.Equal(c.want) {
			t.Errorf("%s: %+v", name, all)
		}
	}
}

// TestStayGoesOn: a runtime that is on the account and is assigned to it again has one stay, from the first reply.
func TestStayGoesOn(t *testing.T) {
	t.Parallel()
	at := time.Unix(1_700_000_000, 0)
	reply := func(minute int, runtime string, status events.Status) events.Stored {
		r := events.Reply{RuntimeID: runtime, Status: status, GlobalAccountID: "ga-1", Binding: &events.Binding{Name: "b-1"}}
		return events.Stored{Reply: r, Time: at.Add(time.Duration(minute) * time.Minute)}
	}
	all := tenures([]events.Stored{
		reply(5, "rt-1", events.StatusAssigned), reply(4, "rt-1", events.StatusReleased),
		reply(3, "rt-2", events.StatusAssigned), reply(2, "rt-1", events.StatusAssigned), reply(1, "rt-1", events.StatusAssigned),
	})
	if len(all) != 1 || len(all[0].Clusters) != 3 {
		t.Fatalf("%+v, want one tenure with three stays", all)
	}
	if first := all[0].Clusters[0]; !first.From.Equal(at.Add(time.Minute)) || !first.To.Equal(at.Add(4*time.Minute)) {
		t.Errorf("the first stay is %+v", first)
	}
}

// TestAccountIsUnknown: while the records cannot be read, an account that only Redis may have is not said to be missing.
func TestAccountIsUnknown(t *testing.T) {
	t.Parallel()
	const missing = "Neither Gardener nor Redis has"
	for name, c := range map[string]struct {
		unread  func(*Page, *landscape)
		account string
		code    int
	}{
		"all is read":           {func(*Page, *landscape) {}, "none", http.StatusNotFound},
		"Redis does not answer": {func(_ *Page, l *landscape) { l.down = errors.New("no Redis") }, "aws-gone", http.StatusOK},
		"nothing is read": {func(p *Page, _ *landscape) {
			p.cache.read = func(context.Context) *state { return &state{Faults: []fault{{Part: Worker}}} }
		}, "aws-1", http.StatusOK},
	} {
		l := demo()
		p, _ := newPage(t, l, nil)
		c.unread(p, l)
		w := get(t, p, "/accounts/"+c.account)
		if w.Code != c.code || strings.Contains(w.Body.String(), missing) {
			t.Errorf("%s: %d\n%s", name, w.Code, w.Body)
		}
		if w := get(t, p, "/find?q="+c.account); name == "nothing is read" && !strings.Contains(w.Body.String(), "Incomplete") {
			t.Errorf("%s: a search does not say so:\n%s", name, w.Body)
		}
	}
}
