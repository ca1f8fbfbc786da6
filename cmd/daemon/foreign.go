package daemon

import (
	"context"
	"sync"
	"time"

	"github.com/hap-worker/hap-worker/events"
)

// maxForeign limits how many foreign messages are remembered. Further ones are skipped too, but
// neither counted nor logged.
const maxForeign = 10_000

// foreigners counts and logs each foreign message once, up to maxForeign messages.
type foreigners struct {
	count func(stream string)
	log   func(text string, f *events.Foreign)

	mu   sync.Mutex
	seen map[foreignKey]struct{}
}

// foreignKey identifies a message. It has the time, because a recreated stream begins with
// sequence 1 again.
type foreignKey struct {
	stream   string
	sequence uint64
	at       time.Time
}

func (d *daemon) newForeigners() *foreigners {
	ctx := context.Background()
	for _, stream := range []string{events.StreamReplies, events.StreamWaiting} {
		d.tel.Metrics.Foreign(ctx, d.parts.subjects.Stream(stream), 0)
	}
	return &foreigners{
		count: func(stream string) { d.tel.Metrics.Foreign(ctx, stream, 1) },
		log:   func(text string, f *events.Foreign) { d.log.Error(text, "bytes", f.Bytes, "error", f) },
		seen:  map[foreignKey]struct{}{},
	}
}

// met is called each time a reader skips a foreign message.
func (s *foreigners) met(f *events.Foreign) {
	key := foreignKey{f.Stream, f.Sequence, f.Time.UTC()}
	s.mu.Lock()
	_, known := s.seen[key]
	full := len(s.seen) >= maxForeign
	if !known && !full {
		s.seen[key] = struct{}{}
	}
	last := len(s.seen) == maxForeign
	s.mu.Unlock()
	if known || full {
		return
	}
	s.count(f.Stream)
	s.log("skipped a message that cannot be read", f)
	if last {
		s.log("further messages that cannot be read are skipped without being counted or logged", f)
	}
}
