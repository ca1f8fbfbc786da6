package containers_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/hap-worker/hap-worker/events"
	"github.com/hap-worker/hap-worker/integration/containers"
)

// TestPartitions cuts the workers of a landscape off from a part, one worker first and then both, and heals the
// partition. Each part has a separate landscape.
func TestPartitions(t *testing.T) {
	t.Parallel()
	for _, part := range []containers.Part{containers.PartNATS, containers.PartRedis, containers.PartKube} {
		t.Run(part.String(), func(t *testing.T) {
			t.Parallel()
			s := newScene(t, setting{})
			first, second := s.Workers[0], s.Workers[1]
			s.must(first.Cut(s.ctx, part))
			s.answers(30)
			t.Log("one worker was cut off, and the other one went on")

			s.must(second.Cut(s.ctx, part))
			s.notices(part)
			answer := s.ask()
			s.lacks(part)
			t.Log("both are cut off")

			// Heal in reverse order: each worker gets another address, so its old connections are dead.
			s.must(second.Heal(s.ctx, part))
			s.must(first.Heal(s.ctx, part))
			begin := time.Now()
			s.must(s.AwaitReady(s.ctx))
			t.Logf("ready %.1fs after it was healed", time.Since(begin).Seconds())
			if a := <-answer; a.err != nil || a.reply.Status != events.StatusAssigned {
				t.Errorf("what was asked while both were cut off is answered %s, %v", a.reply.Status, a.err)
			}
			s.giveBack()
			s.answers(20)
			s.holds()
		})
	}
}

// notices waits until both workers are not ready. Without the Kubernetes API they stay ready, because they
// have its objects in their caches.
func (s *scene) notices(part containers.Part) {
	s.t.Helper()
	if part == containers.PartKube {
		return
	}
	for n, w := range s.Workers {
		s.eventually(func() error {
			if w.Ready(s.ctx) == nil {
				return fmt.Errorf("worker %d is ready, without %s", n+1, part)
			}
			return nil
		})
	}
}

// answer is the result of a request.
type answer struct {
	reply events.Reply
	err   error
}

const (
	spareRuntime = "rt-spare"
	patient      = "patient" // the tenant who asks for the spare account
)

// ask requests the spare account, which is unclaimed, so it has to be claimed.
func (s *scene) ask() <-chan answer {
	s.t.Helper()
	given := make(chan answer, 1)
	go func() {
		reply, err := s.provision(spareRuntime, patient)
		given <- answer{reply, err}
	}()
	return given
}

// lacks waits, if part is the Kubernetes API, until the request for the spare account is answered as waiting.
func (s *scene) lacks(part containers.Part) {
	s.t.Helper()
	if part != containers.PartKube {
		return // no worker takes the event
	}
	s.eventually(func() error {
		stored, found, err := s.Sources.Ledger.Last(s.ctx, "hap.v1.reply."+spareRuntime+"."+request(spareRuntime))
		if err == nil && !found {
			err = errors.New("the claim of the spare account has no reply yet")
		}
		if err == nil && stored.Reply.Status != events.StatusWaiting {
			s.t.Fatalf("without %s the claim of an account is answered %s", part, stored.Reply.Status)
		}
		return err
	})
}

// giveBack releases the spare account, so that it is free in the end.
func (s *scene) giveBack() {
	s.t.Helper()
	reply, err := s.deprovision(spareRuntime, patient)
	if err != nil || reply.Error != nil {
		s.t.Errorf("giving the spare account back: %s %+v, %v", reply.Status, reply.Error, err)
	}
}
