package daemon

import (
	"context"
	"sync"
	"time"

	"github.com/hap-worker/hap-worker/events"
)

// maxForeign bounds how many foreign messages are known one by one. Those beyond are
// passed over like the others, and neither counted nor logged.
const maxForeign = 10_000

// foreigners counts and logs each foreign message once.
type foreigners struct {
	count func(stream string)
	log   func(text string, f *events.Foreign)

	mu   sync.Mutex
	seen map[foreignKey]struct{}
}

// foreignKey is one message: a stream that is recreated begins at sequence 1 again.
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

// met takes a message that was passed over, whenever that happens.
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
	s.log("a message cannot be read, and is passed over", f)
	if last {
		s.log("there are more foreign messages than are counted; this is the last that is named", f)
	}
}
