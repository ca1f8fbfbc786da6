package daemon

import (
	"testing"
	"time"

	"github.com/hap-worker/hap-worker/events"
)

// Several passes read the same message.
func TestForeignMessageIsCountedOnce(t *testing.T) {
	t.Parallel()
	counted, logged := map[string]int{}, 0
	s := &foreigners{
		count: func(stream string) { counted[stream]++ }, log: func(string, *events.Foreign) { logged++ },
		seen: map[foreignKey]struct{}{},
	}
	at := time.Now()
	for range 3 {
		s.met(&events.Foreign{Stream: events.StreamReplies, Sequence: 7, Time: at})
		s.met(&events.Foreign{Stream: events.StreamReplies, Sequence: 3, Time: at})
		s.met(&events.Foreign{Stream: events.StreamWaiting, Sequence: 7, Time: at})
	}
	s.met(&events.Foreign{Stream: events.StreamReplies, Sequence: 7, Time: at.Add(time.Hour)}) // in a stream that was recreated
	if counted[events.StreamReplies] != 3 || counted[events.StreamWaiting] != 1 || logged != 4 {
		t.Errorf("counted %v, logged %d", counted, logged)
	}
	for n := range uint64(3 * maxForeign) {
		s.met(&events.Foreign{Stream: events.StreamWaiting, Sequence: n, Time: at.Add(time.Minute)})
	}
	if len(s.seen) != maxForeign || logged != maxForeign+1 {
		t.Errorf("%d are remembered and %d logged, of very many", len(s.seen), logged)
	}
}
