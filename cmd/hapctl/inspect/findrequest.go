package inspect

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/hap-worker/hap-worker/cmd/hapctl/cli"
	"github.com/hap-worker/hap-worker/cmd/hapctl/letters"
	"github.com/hap-worker/hap-worker/events"
	"github.com/hap-worker/hap-worker/ledger/storage"
)

// mostOfRequest is the greatest number of runtimes with the same request id that are explained.
const mostOfRequest = 10

// requestFinding is the state of a request, with its explanation.
type requestFinding struct {
	RequestID   string           `json:"requestID"`
	Runtimes    []explanation    `json:"runtimes"` // with the decisions of this request only
	Releases    []explained      `json:"releases"` // of bindings
	Queued      []queuedView     `json:"queued"`
	DeadLetters []letters.Letter `json:"deadLetters"`
	Searches    []searched       `json:"searches"`
}

func (v requestFinding) Show(w io.Writer, wide bool) {
	lines := append([][2]string{{"REQUEST", v.RequestID}}, toldOfQueued(v.Queued)...)
	lines = append(lines, toldOfLetters(v.DeadLetters)...)
	cli.Pairs(w, append(lines, toldOfSearches(v.Searches, false)...))
	for _, one := range v.Runtimes {
		fmt.Fprintln(w)
		one.Show(w, wide)
	}
	for _, one := range v.Releases {
		one.Show(w, wide)
	}
}

// findRequest finds a request by the subjects of its replies and of waiting requests, and by reading the
// unsettled events and the dead letters.
func (f *finder) findRequest(ctx context.Context, id string) (cli.View, error) {
	found := []ledgerReply{}
	err := f.s.WithStreams(ctx, f.cfg, func(js jetstream.JetStream, subjects events.Subjects) error {
		return storage.NewLedger(js, subjects, cli.Source).OfRequest(ctx, id, replies(&found))
	})
	if err != nil {
		return nil, fmt.Errorf("reading the replies to request %s from %s: %w", id, events.StreamReplies, err)
	}
	slices.SortStableFunc(found, func(a, b ledgerReply) int { return cmp.Compare(b.StreamSequence, a.StreamSequence) })
	v := requestFinding{RequestID: id, Runtimes: []explanation{}, Releases: []explained{}}
	var runtimes []string
	for _, l := range found {
		if l.Reply.RuntimeID == "" {
			v.Releases = append(v.Releases, explained{ledgerReply: l, Why: reasons(l)})
		} else {
			runtimes = append(runtimes, l.Reply.RuntimeID)
		}
	}
	waiting, err := readWaiting(ctx, f.s, f.cfg, waitingFilter{request: id})
	if err != nil {
		return nil, err
	}
	for _, one := range waiting {
		if !slices.Contains(runtimes, one.RuntimeID) { // its first reply is not stored yet
			runtimes = slices.Insert(runtimes, 0, one.RuntimeID)
		}
	}
	if v.Queued, err = f.queuedOf(ctx, id); err != nil {
		return nil, err
	}
	if v.DeadLetters, err = f.letters(ctx, time.Time{}, func(l letters.Letter) bool { return l.RequestID == id }); err != nil {
		return nil, err
	}
	v.Searches = f.searches
	if v.Runtimes, err = f.explanations(ctx, id, runtimes); err != nil { // last: it asks Gardener, too
		return nil, err
	}
	if len(v.Runtimes)+len(v.Releases)+len(v.Queued)+len(v.DeadLetters) == 0 {
		return nil, nil
	}
	return v, nil
}

// explanations returns the explanations of the first mostOfRequest runtimes, in order of their ids, with the decisions
// about one request only.
func (f *finder) explanations(ctx context.Context, id string, runtimes []string) ([]explanation, error) {
	if more := len(runtimes) - mostOfRequest; more > 0 {
		f.s.Say("%d more runtimes have an older request %s; name one: hapctl explain RUNTIME", more, id)
		runtimes = runtimes[:mostOfRequest]
	}
	slices.Sort(runtimes)
	found := []explanation{}
	for _, runtime := range runtimes {
		v, err := f.explanation(ctx, runtime)
		if err != nil {
			return nil, err
		}
		v.Decisions = slices.DeleteFunc(v.Decisions, func(d explained) bool { return d.Reply.RequestID != id })
		v.Waiting = slices.DeleteFunc(v.Waiting, func(w waitingView) bool { return w.RequestID != id })
		v.DeadLetters = []letters.Letter{} // requestFinding has the letters of the request
		found = append(found, v)
	}
	return found, nil
}
