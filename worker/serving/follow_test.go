package serving_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/hap-worker/hap-worker/ledger/storage"
)

// paged is a room of more requests than NATS lists in one page.
type paged struct {
	*storage.WaitingRoom
	lacks string // subject that the list lacks
	err   error  // of the list
	lists int    // how often it was asked for
}

func (p *paged) State(ctx context.Context) (messages, last uint64, err error) {
	messages, last, err = p.WaitingRoom.State(ctx)
	return messages + 100_000, last, err
}

func (p *paged) Subjects(ctx context.Context) (map[string]uint64, error) {
	p.lists++
	subjects, err := p.WaitingRoom.Subjects(ctx)
	delete(subjects, p.lacks)
	return subjects, errors.Join(err, p.err)
}

// While the pages of a long room are listed, requests leave: the list then lacks others, which wait still. And a list
// that cannot be had keeps no request waiting.
func TestLongRoom(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	room := &paged{WaitingRoom: d.room, lacks: d.subjects.Waiting("aws", "ga-a", "rt-a", "a")}
	d.Room = room
	d.enter("aws", "a", "b")
	d.tries("a*")
	d.leave(d.subjects.Waiting("aws", "ga-b", "rt-b", "b"))
	d.queue["aws"] = d.queue["aws"][:1]
	d.now = d.now.Add(15 * time.Second) // a look is due
	d.tries("a*")
	if d.waits != 1 || room.lists == 0 {
		t.Errorf("%d wait after %d lists, want 1", d.waits, room.lists)
	}
	room.err = errors.New("the subjects have changed")
	d.now = d.now.Add(15 * time.Minute)
	d.tries("a*")
	if len(d.retries) != 1 || !strings.Contains(d.retries[0], "compare with the room: ") {
		t.Errorf("told is %q", d.retries)
	}
}
