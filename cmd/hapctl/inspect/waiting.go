package inspect

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/spf13/cobra"

	"github.com/hap-worker/hap-worker/cmd/hapctl/cli"
	"github.com/hap-worker/hap-worker/counters"
	"github.com/hap-worker/hap-worker/engine"
	"github.com/hap-worker/hap-worker/engine/account"
	"github.com/hap-worker/hap-worker/engine/natural"
	"github.com/hap-worker/hap-worker/events"
	"github.com/hap-worker/hap-worker/ledger/storage"
	"github.com/hap-worker/hap-worker/worker/config"
)

// mostAhead is how many of the requests ahead of a request are named, at most.
const mostAhead = 5

// waitingView is a request that waits.
type waitingView struct {
	Pool      string               `json:"pool"`
	Position  int                  `json:"position,omitempty"` // in the queue for accounts, from 1; 0 if it is not in the queue
	RuntimeID string               `json:"runtimeID"`
	RequestID string               `json:"requestID"`
	Tenant    string               `json:"tenant"`
	Plan      string               `json:"plan"`
	Reason    events.WaitingReason `json:"reason"`
	Since     time.Time            `json:"since"`
	Deadline  time.Time            `json:"deadline"`
	Paused    bool                 `json:"paused"` // the pool is paused
	Behind    []waiterView         `json:"behind"` // the nearest requests ahead of it, at most mostAhead
}

// waiterView is a request ahead of another.
type waiterView struct {
	RuntimeID string `json:"runtimeID"`
	RequestID string `json:"requestID"`
	Tenant    string `json:"tenant"`
}

// told returns the lines for explain.
func (v *waitingView) told() [][2]string {
	why := waitingReason(v.Reason, v.Pool)
	if v.Paused {
		why = "pool " + v.Pool + " is paused; hapctl resume " + cli.QuoteWord(v.Pool) + " ends that"
	}
	return [][2]string{
		{"WAITS", "request " + v.RequestID + ": " + why},
		{"SINCE", v.Since.UTC().Format(time.RFC3339)},
		{"UNTIL", v.Deadline.UTC().Format(time.RFC3339)},
		{"PLACE", v.place()},
	}
}

func (v *waitingView) place() string {
	switch v.Position {
	case 0:
		return "none: " + v.triedAgain()
	case 1:
		return "1, nobody is before it"
	}
	names := make([]string, len(v.Behind))
	for i, b := range v.Behind {
		names[i] = b.RuntimeID + " of " + b.Tenant
	}
	text := fmt.Sprintf("%d, behind %s", v.Position, strings.Join(names, ", "))
	if more := v.Position - 1 - len(v.Behind); more > 0 {
		text += fmt.Sprintf(" and %d before these", more)
	}
	return text
}

// triedAgain says when a request without a place is tried again.
func (v *waitingView) triedAgain() string {
	switch v.Reason {
	case events.WaitingUnavailable:
		return "it is tried again until Gardener takes the label of its account"
	case events.WaitingNetworkFull:
		return "it is tried again when network blocks become free"
	case events.WaitingNetworkMissing:
		return "it is tried again when there are network rules"
	default:
		return "it is not in the queue, or its pool is not built; a worker looks at it again"
	}
}

type waitingList struct {
	Waiting []waitingView `json:"waiting"`
}

func (v waitingList) Show(w io.Writer, wide bool) {
	if wide {
		v.showWide(w)
		return
	}
	now := time.Now()
	rows := make([][]string, len(v.Waiting))
	for i, one := range v.Waiting {
		reason := string(one.Reason)
		if one.Paused {
			reason = "paused"
		}
		rows[i] = cli.Dashed([]string{one.Pool, one.placeNumber(), one.RuntimeID, one.Tenant, reason, roughly(now.Sub(one.Since)), roughly(one.Deadline.Sub(now))})
	}
	cli.Fitted(w, []string{"POOL", "PLACE", "RUNTIME", "TENANT", "REASON", "WAITED", "LEFT"}, rows, "TENANT", "POOL", "RUNTIME")
}

func (v waitingList) showWide(w io.Writer) {
	rows := make([][]string, len(v.Waiting))
	for i, one := range v.Waiting {
		behind := ""
		if n := len(one.Behind); n > 0 {
			behind = one.Behind[n-1].RuntimeID
		}
		rows[i] = cli.Dashed([]string{one.Pool, one.placeNumber(), one.RuntimeID, one.Tenant, string(one.Reason),
			one.Since.UTC().Format(time.RFC3339), one.Deadline.UTC().Format(time.RFC3339), one.RequestID, one.Plan, cli.Yes(one.Paused), behind})
	}
	cli.Table(w, []string{"POOL", "PLACE", "RUNTIME", "TENANT", "REASON", "SINCE", "UNTIL", "REQUEST", "PLAN", "PAUSED", "BEHIND"}, rows)
}

// placeNumber returns the place in the queue for accounts, "" for none.
func (v *waitingView) placeNumber() string {
	if v.Position == 0 {
		return ""
	}
	return strconv.Itoa(v.Position)
}

// waitingFilter selects waiting requests. An empty field selects all.
type waitingFilter struct{ pool, tenant, runtime, request string }

func (f waitingFilter) takes(w storage.WaitingRequest) bool {
	return (f.pool == "" || w.Pool == f.pool) && (f.tenant == "" || w.Event.Provision.GlobalAccountID == f.tenant)
}

// NewWaiting returns the command hapctl waiting.
func NewWaiting(s *cli.Shell) *cobra.Command {
	var f waitingFilter
	cmd := &cobra.Command{
		Use:   "waiting",
		Short: "Show waiting requests in the order of service",
		Long: `Show the waiting requests of each pool in the order in which workers serve them:
tenants take turns, and each tenant's oldest request comes first. LEFT is the time
until the deadline, at which a worker answers the request with PoolExhausted or
NetworkExhausted. -o wide shows when it began to wait, the deadline and the request
ids.

Reasons: pool-empty, network-full, network-missing (there are no network rules),
unavailable (Gardener did not accept a claim), paused (the pool is paused).`,
		Example: `  hapctl waiting
  hapctl waiting --pool aws+eu -o wide`,
		Args: cli.Arguments(cobra.NoArgs),
	}
	flags := cmd.Flags()
	flags.StringVar(&f.pool, "pool", "", "show only requests for the `pool`")
	flags.StringVar(&f.tenant, "tenant", "", "show only requests of the global account `id`")
	s.CompleteFlags(cmd)
	return s.Reader(cli.WithNames(cmd), "for Redis and NATS", func(ctx context.Context, cfg *config.Config, _ []string) error {
		waiting, err := readWaiting(ctx, s, cfg, f)
		if err != nil {
			return err
		}
		return s.PrintSome(waitingList{Waiting: waiting}, len(waiting), "requests that wait")
	})
}

// readWaiting returns the waiting requests that the filter selects, sorted by pool and place.
func readWaiting(ctx context.Context, s *cli.Shell, cfg *config.Config, f waitingFilter) ([]waitingView, error) {
	store, err := cli.OpenRedis(ctx, s, cfg)
	if err != nil {
		return nil, err
	}
	found := []storage.WaitingRequest{}
	err = withRoom(ctx, s, cfg, func(room *storage.WaitingRoom) error {
		visit := func(w storage.WaitingRequest) error {
			if f.takes(w) {
				found = append(found, w)
			}
			return nil
		}
		of := events.WaitingAddress{RuntimeID: f.runtime, RequestID: f.request}
		if engine.ValidID(f.tenant) {
			of.GlobalAccountID = f.tenant
		}
		return room.Matching(ctx, of, visit)
	})
	if err != nil {
		return nil, err
	}
	return placed(ctx, store, found)
}

// placed returns the requests with their places in Redis' queues.
func placed(ctx context.Context, store *counters.Store, requests []storage.WaitingRequest) ([]waitingView, error) {
	pools := map[string]line{}
	views := make([]waitingView, len(requests))
	for i, r := range requests {
		l, known := pools[r.Pool]
		if !known {
			queue, err := store.Queue(ctx, r.Pool)
			if err != nil && !errors.Is(err, account.ErrNotBuilt) {
				return nil, err
			}
			status, err := store.Status(ctx, r.Pool)
			if err != nil {
				return nil, err
			}
			l = newLine(queue, status.Paused)
			pools[r.Pool] = l
		}
		views[i] = l.view(r)
	}
	slices.SortStableFunc(views, func(a, b waitingView) int {
		return cmp.Or(natural.Compare(a.Pool, b.Pool), cmp.Compare(uint(a.Position-1), uint(b.Position-1)), a.Since.Compare(b.Since)) // requests without a place come last
	})
	return views, nil
}

// line is the queue of a pool.
type line struct {
	queue  []account.Waiter
	places map[string]int // from 1, by runtime
	paused bool
}

func newLine(queue []account.Waiter, paused bool) line {
	l := line{queue: queue, places: make(map[string]int, len(queue)), paused: paused}
	for i, w := range queue {
		l.places[w.Runtime] = i + 1
	}
	return l
}

func (l line) view(r storage.WaitingRequest) waitingView {
	v := waitingView{
		Pool: r.Pool, RuntimeID: r.Event.RuntimeID, RequestID: r.Event.ID, Tenant: r.Event.Provision.GlobalAccountID, Plan: r.Event.Provision.Plan,
		Reason: r.Reason, Since: r.Since.UTC(), Deadline: r.Deadline.UTC(), Paused: l.paused, Position: l.places[r.Event.RuntimeID], Behind: []waiterView{},
	}
	ahead := max(0, v.Position-1)
	for _, w := range l.queue[max(0, ahead-mostAhead):ahead] {
		v.Behind = append(v.Behind, waiterView{RuntimeID: w.Runtime, RequestID: w.Request, Tenant: w.Tenant})
	}
	return v
}

// withRoom opens the stream of waiting requests and calls run with it.
func withRoom(ctx context.Context, s *cli.Shell, cfg *config.Config, run func(*storage.WaitingRoom) error) error {
	return s.WithStreams(ctx, cfg, func(js jetstream.JetStream, subjects events.Subjects) error {
		return run(storage.NewWaitingRoom(js, subjects))
	})
}

// Names returns the ids of the requests: a runtime may have several.
func (v waitingList) Names() []string {
	return cli.NamesOf(v.Waiting, func(w waitingView) string { return w.RequestID })
}
