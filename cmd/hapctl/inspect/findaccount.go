package inspect

import (
	"context"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sync/errgroup"

	"github.com/hap-worker/hap-worker/cmd/hapctl/cli"
	"github.com/hap-worker/hap-worker/events"
	"github.com/hap-worker/hap-worker/ledger/storage"
	past "github.com/hap-worker/hap-worker/worker/history"
)

const (
	// mostRuntimes is how many of the account's newest runtimes have their replies read without --newest.
	mostRuntimes = 500
	// runtimesAtOnce is the number of runtimes that are read concurrently.
	runtimesAtOnce = 16
)

// accountFinding is an account with its history.
type accountFinding struct {
	bindingDetail
	Timeline []moment `json:"timeline"` // oldest first
	Left     int      `json:"left"`     // runtimes whose replies were not read
}

// moment is a reply about an account.
type moment struct {
	At        time.Time     `json:"at"`
	Tenant    string        `json:"tenant,omitempty"`
	RuntimeID string        `json:"runtimeID,omitempty"`
	RequestID string        `json:"requestID"`
	Status    events.Status `json:"status"`
	Clusters  *int          `json:"clusters,omitempty"` // on the account afterwards
	Text      string        `json:"text"`
}

// timeline returns the moments of replies, which must be in the order of the ledger.
func timeline(replies []ledgerReply) []moment {
	all, decisions := []moment{}, past.Decisions{}
	for _, l := range replies {
		m := momentOf(l)
		if d := l.Reply.Decision; d != nil && !decisions.First(d.Pool, d.Sequence) {
			m.Text = "repeats an earlier answer"
		}
		all = append(all, m)
	}
	return all
}

func momentOf(l ledgerReply) moment {
	r := l.Reply
	m := moment{At: l.StoredAt.UTC(), Tenant: r.GlobalAccountID, RuntimeID: r.RuntimeID, RequestID: r.RequestID, Status: r.Status, Clusters: r.Clusters}
	switch {
	case r.Status == events.StatusAssigned && r.Binding.Claimed:
		m.Text = fmt.Sprintf("claimed, generation %d", r.Binding.Generation)
	case r.Status == events.StatusAssigned:
		m.Text = "got a cluster"
	case r.Status == events.StatusReturned:
		m.Text = "cleaned, free again"
	case r.Error != nil:
		m.Text = "refused: " + string(r.Error.Code)
	case r.MarkedDirty:
		m.Text = "emptied, marked dirty"
	case r.Draining:
		m.Text = "emptied, drains"
	default:
		m.Text = "lost a cluster"
	}
	return m
}

func (v accountFinding) Show(w io.Writer, wide bool) {
	shown := v.bindingDetail
	if !wide {
		shown.Runtimes = nil // the timeline has them
	}
	shown.Show(w, wide)
	fmt.Fprintln(w)
	if len(v.Timeline) == 0 {
		cli.Pairs(w, [][2]string{{"TIMELINE", "the ledger has nothing of it"}})
		return
	}
	rows := make([][]string, len(v.Timeline))
	for i, m := range v.Timeline {
		clusters := ""
		if m.Clusters != nil {
			clusters = strconv.Itoa(*m.Clusters)
		}
		rows[i] = []string{m.At.Format(time.RFC3339), m.Tenant, m.RuntimeID, clusters, m.Text}
		if wide {
			rows[i] = append(rows[i], m.RequestID)
		}
		cli.Dashed(rows[i])
	}
	header := []string{"AT", "TENANT", "RUNTIME", "CLUSTERS", "WHAT"}
	if wide {
		cli.Table(w, append(header, "REQUEST"), rows)
	} else {
		cli.Fitted(w, header, rows, "TENANT", "RUNTIME")
	}
	text := fmt.Sprintf("%s: the replies to its releases, and about %s that Redis remembers", events.StreamReplies, cli.Count(len(v.Runtimes)-v.Left, "runtime"))
	if v.Left > 0 {
		text += fmt.Sprintf("; not read: %d older, --newest reads more", v.Left)
	}
	fmt.Fprintln(w)
	cli.Pairs(w, cli.FoldedPair("SEARCHED", text))
}

// findAccount finds an account and the replies about it: the replies to its releases, and those to the newest of the
// runtimes that have or had it and that Redis still knows. It finds both by their subjects.
func (f *finder) findAccount(ctx context.Context, name string) (cli.View, error) {
	detail, known, err := readBinding(ctx, f.s, f.cfg, name, runtimeFilter{binding: name})
	if err != nil || !known {
		return nil, err
	}
	v := accountFinding{bindingDetail: detail}
	runtimes := slices.Clone(detail.Runtimes)
	slices.SortFunc(runtimes, func(a, b runtimeView) int { return int(b.Sequence - a.Sequence) })
	if most := int(min(f.most(mostRuntimes), math.MaxInt)); len(runtimes) > most {
		v.Left, runtimes = len(runtimes)-most, runtimes[:most]
	}
	found := make([][]ledgerReply, len(runtimes)+1)
	err = f.s.WithStreams(ctx, f.cfg, func(js jetstream.JetStream, subjects events.Subjects) error {
		ledger := storage.NewLedger(js, subjects, cli.Source)
		group, ctx := errgroup.WithContext(ctx)
		group.SetLimit(runtimesAtOnce)
		for i, rt := range runtimes {
			group.Go(func() error { return ledger.Under(ctx, subjects.RuntimeReplies(rt.RuntimeID), replies(&found[i])) })
		}
		group.Go(func() error { return ledger.Under(ctx, subjects.BindingReplies(name), replies(&found[len(runtimes)])) })
		return group.Wait()
	})
	if err != nil {
		return nil, fmt.Errorf("reading the replies about %s from %s: %w", name, events.StreamReplies, err)
	}
	all := slices.DeleteFunc(slices.Concat(found...), func(l ledgerReply) bool {
		return l.Reply.RuntimeID != "" && (l.Reply.Binding == nil || l.Reply.Binding.Name != name)
	})
	slices.SortFunc(all, func(a, b ledgerReply) int { return int(a.StreamSequence) - int(b.StreamSequence) })
	v.Timeline = timeline(all)
	return v, nil
}
