package page

import (
	"context"
	"math"
	"net/netip"
	"testing"
	"time"

	"pgregory.net/rapid"

	_ "github.com/hap-worker/hap-worker/engine/rapidtest" // fixes the seed
	"github.com/hap-worker/hap-worker/worker/observe"
)

// TestRecentForgets: the last events are kept, and those without an answer are listed.
func TestRecentForgets(t *testing.T) {
	t.Parallel()
	r := NewRecent()
	for i := range 3 * keepEvents {
		r.OnEvent(context.Background(), observe.Event{Type: "provision", Outcome: observe.NakWithDelay, Duration: time.Duration(i) * time.Millisecond})
	}
	events := r.events(1000)
	if len(events) != keepEvents || events[0].Duration != (3*keepEvents-1)*time.Millisecond || events[keepEvents-1].Duration != 2*keepEvents*time.Millisecond {
		t.Errorf("%d events from %s", len(events), events[0].Duration)
	}
	r.OnEvent(context.Background(), observe.Event{Type: "provision", Outcome: observe.Ack, Status: "assigned"})
	if told := r.troubles(3); len(told) != 3 || told[0].Duration != events[0].Duration {
		t.Errorf("not answered are %+v", told)
	}
}

// TestTroublesThatAreOver: an event that this worker has answered since is no trouble any more.
func TestTroublesThatAreOver(t *testing.T) {
	t.Parallel()
	r := NewRecent()
	for _, e := range []observe.Event{
		{ID: "p-1", Runtime: "rt-1", Outcome: observe.NakWithDelay},
		{ID: "p-1", Runtime: "rt-2", Outcome: observe.NakWithDelay},
		{ID: "p-1", Runtime: "rt-1", Outcome: observe.Ack},
		{ID: "p-3", Runtime: "rt-3", Outcome: observe.Ack},
		{ID: "p-3", Runtime: "rt-3", Outcome: observe.NakWithDelay}, // it came again
	} {
		r.OnEvent(t.Context(), e)
	}
	if left := r.troubles(9); len(left) != 2 || left[0].Runtime != "rt-3" || left[1].Runtime != "rt-2" {
		t.Errorf("left are %+v", left)
	}
}

func TestParentMaps(t *testing.T) {
	t.Parallel()
	six, err := newParentMap(Parent{CIDR: netip.MustParsePrefix("fd00::/48"), Used: []netip.Prefix{netip.MustParsePrefix("fd00:0:0:8000::/49")}})
	if err != nil || six.Share != "50%" || len(six.Used) != 1 || six.Used[0].X != "50.000%" {
		t.Errorf("%+v, %v", six, err)
	}
	if _, err := newParentMap(Parent{CIDR: netip.MustParsePrefix("10.0.0.0/16"), Used: []netip.Prefix{netip.MustParsePrefix("10.1.0.0/28")}}); err == nil {
		t.Error("a block outside of its parent was drawn")
	}
	// However many blocks there are, the strip is bounded.
	var many []netip.Prefix
	for a := netip.MustParseAddr("10.0.0.0"); len(many) < 1<<15; a = a.Next().Next() {
		many = append(many, netip.PrefixFrom(a, 32))
	}
	m, err := newParentMap(Parent{CIDR: netip.MustParsePrefix("10.0.0.0/16"), Used: many})
	if err != nil || len(m.Used) > mostBlocks || m.Share != "50%" {
		t.Errorf("%d parts, %s, %v", len(m.Used), m.Share, err)
	}
	rapid.Check(t, func(t *rapid.T) {
		bits := rapid.IntRange(1, 30).Draw(t, "bits")
		at := rapid.Uint32().Draw(t, "address")
		a := netip.AddrFrom4([4]byte{byte(at >> 24), byte(at >> 16), byte(at >> 8), byte(at)})
		in := netip.PrefixFrom(a, bits).Masked()
		want := float64(at&(1<<(32-bits)-1)) / float64(uint64(1)<<(32-bits))
		if got := offset(in, a); math.Abs(got-want) > 1e-9 {
			t.Fatalf("%s in %s lies at %g, want %g", a, in, got, want)
		}
	})
}
