package streams

import (
	"context"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// gappy is a stream with the messages at some sequences, each stored at as many seconds after the epoch.
type gappy struct {
	Streams
	first, last uint64 // of the state
	has         func(uint64) bool
}

func (g gappy) State(context.Context, string) (jetstream.StreamState, error) {
	return jetstream.StreamState{FirstSeq: g.first, LastSeq: g.last}, nil
}

func (g gappy) Message(_ context.Context, _ string, q Query) (Message, error) {
	for n := max(q.Sequence, g.first); n <= g.last; n++ {
		if g.has(n) {
			return Message{Sequence: n, Time: time.Unix(int64(n), 0)}, nil
		}
	}
	return Message{}, jetstream.ErrMsgNotFound
}

// TestNewestIsBounded: a reading is bounded only if the limit has left out a message from since or later, whatever
// gaps the stream has.
func TestNewestIsBounded(t *testing.T) {
	t.Parallel()
	all := func(uint64) bool { return true }
	gap := func(n uint64) bool { return n <= 500 || n > 900 }
	for name, c := range map[string]struct {
		first, last, most uint64
		has               func(uint64) bool
		since             time.Time
		read              int
		bounded, older    bool
	}{
		"all are read":                        {1, 1000, 1000, all, time.Time{}, 1000, false, false},
		"one is left out":                     {1, 1000, 999, all, time.Time{}, 999, true, false},
		"only older ones are left out":        {1, 1000, 100, all, time.Unix(901, 0), 100, false, true},
		"one that is not older is left out":   {1, 1000, 100, all, time.Unix(900, 0), 100, true, true},
		"only a gap is left out":              {1, 1000, 100, gap, time.Unix(501, 0), 100, false, true},
		"a gap is left out, and one":          {1, 1000, 100, gap, time.Unix(500, 0), 100, true, true},
		"a gap and one behind it is left out": {1, 1000, 99, gap, time.Unix(501, 0), 99, true, true},
		"the last ones are deleted":           {1, 1000, 100, func(n uint64) bool { return n <= 500 }, time.Unix(501, 0), 0, false, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			extent, err := Newest(t.Context(), gappy{first: c.first, last: c.last, has: c.has}, "S", ">", c.since, c.most, func(Message) error { return nil })
			if err != nil || extent.Read != c.read || extent.Bounded != c.bounded || extent.Older != c.older {
				t.Errorf("%v, read %d, bounded %t, older %t, want %d, %t, %t", err, extent.Read, extent.Bounded, extent.Older, c.read, c.bounded, c.older)
			}
		})
	}
}
