package page

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/hap-worker/hap-worker/engine"
	"github.com/hap-worker/hap-worker/engine/account"
	"github.com/hap-worker/hap-worker/events"
	"github.com/hap-worker/hap-worker/ledger/storage"
)

const (
	repliesShown  = 60 // of one runtime, account or tenant
	repliesAtOnce = 16 // read concurrently
	clustersShown = 12 // of one tenure of an account
)

// runtimeData is the data of the page of a runtime.
type runtimeData struct {
	ID      string
	Place   account.Place
	Record  account.Runtime
	Known   bool // Redis was read
	Waiting []waiter
	Answers []answer // newest first
	More    int
	Fault   string
	Now     time.Time
}

// runtimeView shows a runtime: its place, its waiting requests, and the newest answers to its requests.
func (p *Page) runtimeView(w http.ResponseWriter, r *http.Request) {
	from := p.connected(w)
	if from == nil {
		return
	}
	d := runtimeData{ID: r.PathValue("runtime"), Now: p.now()}
	if !engine.ValidID(d.ID) {
		p.fail(w, http.StatusNotFound, "This is no id of a runtime.")
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), recordWithin)
	defer cancel()
	var fault, waits error
	d.Place, d.Record, fault = from.Records.Runtime(ctx, d.ID)
	d.Known = fault == nil
	d.Waiting, waits = waitingOf(ctx, from, events.WaitingAddress{RuntimeID: d.ID})
	err := from.Ledger.OfRuntime(ctx, d.ID, func(s events.Stored) error {
		if s.Foreign == nil && s.Reply.Status != events.StatusSealed {
			d.Answers = append(d.Answers, answer{told(s)})
		}
		return nil
	})
	slices.Reverse(d.Answers)
	d.More = max(0, len(d.Answers)-repliesShown)
	d.Answers = d.Answers[:len(d.Answers)-d.More]
	if err := errors.Join(fault, waits, err); err != nil {
		d.Fault = err.Error()
	}
	status := http.StatusOK
	if d.Fault == "" && d.Place.Pool == "" && !d.Place.Gone && len(d.Answers)+len(d.Waiting) == 0 {
		p.fail(w, http.StatusNotFound, fmt.Sprintf("Nothing is known of runtime %s: Redis does not have it, and the ledger has no reply to it. "+
			"Its replies are forgotten some time after it was released.", d.ID))
		return
	}
	p.write(w, status, view{Title: "Runtime " + d.ID, Body: "runtime", Data: d, Taken: d.Now})
}

// waitingOf returns the mostWaiting oldest of the waiting requests that match an address, oldest first.
func waitingOf(ctx context.Context, from *Sources, of events.WaitingAddress) ([]waiter, error) {
	var all []waiter
	err := from.Room.Matching(ctx, of, func(r storage.WaitingRequest) error {
		if all = append(all, newWaiter(r)); len(all) == mostWaiting {
			return errEnough
		}
		return nil
	})
	if errors.Is(err, errEnough) {
		err = nil
	}
	return all, err
}

// repliesAt reads replies by their sequence in the ledger, concurrently. It returns the replies that it could read
// and decode, in the order of sequences, and the first error.
func repliesAt(ctx context.Context, from *Sources, sequences []uint64) ([]events.Stored, error) {
	all := make([]events.Stored, len(sequences))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(repliesAtOnce)
	for i, sequence := range sequences {
		group.Go(func() error {
			s, found, err := from.Ledger.At(ctx, sequence)
			if found && s.Foreign == nil {
				all[i] = s
			}
			return err
		})
	}
	err := group.Wait()
	return slices.DeleteFunc(all, func(s events.Stored) bool { return s.Sequence == 0 }), err
}

// pastData is the ledger's past of an account or a tenant.
type pastData struct {
	Done    bool // the ledger was read to its end
	Read    uint64
	End     uint64
	More    int // the number of older replies, which are not in replies
	Fault   string
	Now     time.Time
	replies []events.Stored // newest first
}

func (p *Page) past(ctx context.Context, from *Sources, of func(n int) ([]uint64, int)) pastData {
	d := pastData{Now: p.now()}
	at := from.past.Look(ctx)
	d.Done, d.Read, d.End = at.Done, at.Read, at.End
	sequences, more := of(repliesShown)
	replies, err := repliesAt(ctx, from, sequences)
	d.replies, d.More = replies, more
	if err := cmp.Or(at.Err, err); err != nil {
		d.Fault = err.Error()
	}
	return d
}

// tenantData is the data of the page of a tenant.
type tenantData struct {
	pastData

	Name     string
	Banner   banner
	Accounts []placed
	Known    bool // all accounts were read
	Waiting  []waiter
	Answers  []answer
}

// placed is an account with its pool.
type placed struct {
	acct

	Pool string
}

// tenantView shows a tenant: its accounts, its waiting requests, and the last answers to its requests.
func (p *Page) tenantView(w http.ResponseWriter, r *http.Request) {
	from := p.connected(w)
	if from == nil {
		return
	}
	name := r.PathValue("tenant")
	if !engine.ValidID(name) {
		p.fail(w, http.StatusNotFound, "This is no id of a global account.")
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), recordWithin)
	defer cancel()
	s := p.state(r)
	d := tenantData{Name: name, Banner: s.banner(), Known: s.Known()}
	d.pastData = p.past(ctx, from, func(n int) ([]uint64, int) { return from.past.Tenant(name, n) })
	for _, of := range s.Pools {
		for _, a := range of.sorted() {
			if a.Tenant == name {
				d.Accounts = append(d.Accounts, placed{a, of.Name()})
			}
		}
	}
	var err error
	if d.Waiting, err = waitingOf(ctx, from, events.WaitingAddress{GlobalAccountID: name}); err != nil {
		d.Fault = cmp.Or(d.Fault, err.Error())
	}
	for _, s := range d.replies {
		d.Answers = append(d.Answers, answer{told(s)})
	}
	if d.Done && d.Fault == "" && len(s.Faults) == 0 && len(d.Accounts)+len(d.Waiting)+len(d.Answers) == 0 {
		p.fail(w, http.StatusNotFound, fmt.Sprintf("Nothing is known of tenant %s: it has no account, nothing of it waits, and the ledger has no reply to it.", name))
		return
	}
	p.write(w, http.StatusOK, view{Title: "Tenant " + name, Nav: "tenants", Body: "tenant", Data: d, Taken: s.Taken})
}
