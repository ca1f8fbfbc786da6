package inspect

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/hap-worker/hap-worker/cmd/hapctl/cli"
	"github.com/hap-worker/hap-worker/cmd/hapctl/view"
	"github.com/hap-worker/hap-worker/counters"
	"github.com/hap-worker/hap-worker/engine"
	"github.com/hap-worker/hap-worker/engine/account"
	"github.com/hap-worker/hap-worker/engine/natural"
	"github.com/hap-worker/hap-worker/events"
	"github.com/hap-worker/hap-worker/worker/config"
)

// runtimeView is a runtime as Redis has it.
type runtimeView struct {
	RuntimeID string               `json:"runtimeID"`
	State     account.RuntimeState `json:"state"`
	Pool      string               `json:"pool,omitempty"`
	Binding   string               `json:"binding,omitempty"`
	Tenant    string               `json:"tenant,omitempty"`
	Sequence  int64                `json:"sequence"`
	RequestID string               `json:"requestID,omitempty"`
	Confirmed bool                 `json:"confirmed"`
	Origin    account.Origin       `json:"origin,omitempty"`
}

// stateNone is the state of a runtime that Redis does not know.
const stateNone account.RuntimeState = "none"

func viewOfRuntime(id, pool string, rt account.Runtime) runtimeView {
	return runtimeView{
		RuntimeID: id, State: rt.State, Pool: pool, Binding: rt.Binding, Tenant: rt.Tenant,
		Sequence: rt.Sequence, RequestID: rt.FirstRequest(), Confirmed: rt.Confirmed, Origin: rt.Origin,
	}
}

func (v runtimeView) row() []string {
	return []string{v.RuntimeID, string(v.State), v.Pool, v.Binding, v.Tenant}
}

func writeRuntimes(w io.Writer, runtimes []runtimeView, wide bool) {
	header := []string{"RUNTIME", "STATE", "POOL", "BINDING", "TENANT"}
	rows := make([][]string, len(runtimes))
	for i, v := range runtimes {
		rows[i] = v.row()
		if wide {
			rows[i] = append(rows[i], strconv.FormatInt(v.Sequence, 10), v.RequestID, strconv.FormatBool(v.Confirmed), string(v.Origin))
		}
		cli.Dashed(rows[i])
	}
	if wide {
		cli.Table(w, append(header, "SEQUENCE", "REQUEST", "CONFIRMED", "ORIGIN"), rows)
		return
	}
	cli.Fitted(w, header, rows, "TENANT", "POOL", "BINDING", "RUNTIME")
}

type runtimeList struct {
	Runtimes []runtimeView `json:"runtimes"`
}

func (v runtimeList) Show(w io.Writer, wide bool) { writeRuntimes(w, v.Runtimes, wide) }

// runtimeDetail is one runtime with its replies in the ledger.
type runtimeDetail struct {
	runtimeView
	Replies     []ledgerReply `json:"replies"`
	Differences []string      `json:"differences"`
}

// ledgerReply is a stored reply. InForce marks the runtime's ledger entry: the reply with the highest
// decision number.
type ledgerReply struct {
	StoredAt       time.Time    `json:"storedAt"`
	StreamSequence uint64       `json:"streamSequence"`
	InForce        bool         `json:"inForce"`
	Reply          events.Reply `json:"reply"`
}

func (v runtimeDetail) Show(w io.Writer, wide bool) {
	writeRuntimes(w, []runtimeView{v.runtimeView}, wide)
	for _, text := range v.Differences {
		fmt.Fprintln(w, "\nDIFFERENCE  "+text)
	}
	if len(v.Replies) == 0 {
		return
	}
	header := []string{"REPLY TO", "STATUS", "BINDING", "SEQUENCE", "STORED", "IN FORCE", "ERROR"}
	rows := make([][]string, len(v.Replies))
	for i, l := range v.Replies {
		r := l.Reply
		row := []string{r.RequestID, string(r.Status), "", "", l.StoredAt.UTC().Format(time.RFC3339), cli.Yes(l.InForce), ""}
		if r.Binding != nil {
			row[2] = r.Binding.Name
		}
		if r.Decision != nil && r.Decision.Sequence > 0 {
			row[3] = strconv.FormatInt(r.Decision.Sequence, 10)
		}
		if r.Error != nil {
			row[6] = string(r.Error.Code)
			if wide {
				row[6] += ": " + r.Error.Message
			}
		}
		rows[i] = cli.Dashed(row)
	}
	fmt.Fprintln(w)
	cli.Table(w, header, rows)
}

// runtimeFilter selects runtimes. An empty field selects all.
type runtimeFilter struct{ pool, binding, tenant, state string }

func (f runtimeFilter) takes(rt account.Runtime) bool {
	return (f.binding == "" || rt.Binding == f.binding) && (f.tenant == "" || rt.Tenant == f.tenant) &&
		(f.state == "" || string(rt.State) == f.state)
}

// NewRuntimes returns the command hapctl runtimes.
func NewRuntimes(s *cli.Shell) *cobra.Command {
	var f runtimeFilter
	state := cli.Choice{Of: cli.Words(account.RuntimeAssigned, account.RuntimeWaiting, account.RuntimeGone, account.RuntimeRefused, account.RuntimeMoved)}
	cmd := &cobra.Command{
		Use:   "runtimes [ID]",
		Short: "Show runtimes and their accounts",
		Long: `Show the runtimes that Redis knows, each with its present or last account and with
the request id and the number of the decision. If you pass an ID, hapctl shows that
runtime and the replies to its requests in the ledger, and marks the reply in force.

States: assigned, waiting, gone (deprovisioned, remembered for some days), refused,
moved (it has left for another pool).`,
		Example: `  hapctl runtimes --tenant ga-1 --state assigned
  hapctl runtimes rt-1`,
		Args: cli.RowOrFlags("ID", "pool", "binding", "tenant", "state"),
	}
	flags := cmd.Flags()
	flags.StringVar(&f.pool, "pool", "", "show only runtimes of the `pool`")
	flags.StringVar(&f.binding, "binding", "", "show only runtimes that have or had the account `name`")
	flags.StringVar(&f.tenant, "tenant", "", "show only runtimes of the global account `id`")
	state.Flag(cmd, "state", "show only runtimes in the `state`")
	s.CompleteFlags(cmd)
	s.CompleteArgument(cmd, cli.LiveRuntimes)
	return s.Reader(cli.WithNames(cmd), "for Redis and the ledger", func(ctx context.Context, cfg *config.Config, args []string) error {
		if len(args) == 1 && !engine.ValidID(args[0]) {
			return cli.Usagef("%q is no runtime id: 1 to %d letters, digits, - and _, a letter or digit at both ends", args[0], engine.MaxID)
		}
		if len(args) == 1 {
			return showRuntime(ctx, s, cfg, args[0])
		}
		f.state = state.Taken
		return listRuntimes(ctx, s, cfg, f)
	})
}

func listRuntimes(ctx context.Context, s *cli.Shell, cfg *config.Config, f runtimeFilter) error {
	store, err := cli.OpenRedis(ctx, s, cfg)
	if err != nil {
		return err
	}
	pools := []string{f.pool}
	if f.pool == "" {
		if pools, err = store.Pools(ctx); err != nil {
			return err
		}
	}
	runtimes, unbuilt, err := readRuntimes(ctx, store, pools, f)
	switch {
	case err != nil:
		return err
	case f.pool != "" && len(unbuilt) > 0:
		return unbuiltPool(account.ErrNotBuilt, f.pool, cfg.Redis.URL)
	}
	view.SayUnbuilt(s, unbuilt)
	return s.PrintSome(runtimeList{Runtimes: runtimes}, len(runtimes), "runtimes")
}

// readRuntimes returns those runtimes of the pools that the filter selects, sorted by id. A runtime that changed
// during the read of its pool is returned once. unbuilt are those of the pools that are not built.
func readRuntimes(ctx context.Context, store *counters.Store, pools []string, f runtimeFilter) (runtimes []runtimeView, unbuilt []string, err error) {
	found, lost := make([][]runtimeView, len(pools)), make([]bool, len(pools))
	err = view.EachPool(ctx, pools, func(ctx context.Context, i int, pool string) error {
		read := store.Runtimes(ctx, pool)
		if f.binding != "" {
			read = store.RuntimesOn(ctx, pool, f.binding)
		}
		all, err := view.Gather(read)
		if lost[i] = errors.Is(err, account.ErrNotBuilt); lost[i] {
			return nil
		}
		for _, rt := range all {
			if f.takes(rt.Runtime) {
				found[i] = append(found[i], viewOfRuntime(rt.ID, pool, rt.Runtime))
			}
		}
		return err
	})
	for i, pool := range pools {
		if lost[i] {
			unbuilt = append(unbuilt, pool)
		}
	}
	runtimes = append([]runtimeView{}, slices.Concat(found...)...) // not nil, even if nothing is found
	slices.SortFunc(runtimes, func(a, b runtimeView) int {
		return cmp.Or(natural.Compare(a.RuntimeID, b.RuntimeID), natural.Compare(a.Pool, b.Pool), cmp.Compare(b.Sequence, a.Sequence))
	})
	return slices.CompactFunc(runtimes, func(a, b runtimeView) bool { return a.RuntimeID == b.RuntimeID && a.Pool == b.Pool }), unbuilt, err
}

// showRuntime shows one runtime.
func showRuntime(ctx context.Context, s *cli.Shell, cfg *config.Config, id string) error {
	detail, err := readRuntime(ctx, s, cfg, id)
	if err != nil {
		return err
	}
	return s.Print(detail)
}

// readRuntime returns a runtime from Redis and the ledger. If neither knows it, the error is UnknownRuntime,
// which is also printed for programs.
func readRuntime(ctx context.Context, s *cli.Shell, cfg *config.Config, id string) (runtimeDetail, error) {
	detail, err := lookUpRuntime(ctx, s, cfg, id)
	if err == nil && !detail.known() {
		return runtimeDetail{}, s.Unknown(&engine.Error{
			Code: engine.CodeUnknownRuntime, Err: fmt.Errorf("runtime %s is in neither Redis nor the ledger", id),
			Hint: "hapctl runtimes lists the known runtimes",
		})
	}
	return detail, err
}

// known reports whether Redis or the ledger knows the runtime.
func (v *runtimeDetail) known() bool { return v.State != stateNone || len(v.Replies) > 0 }

func lookUpRuntime(ctx context.Context, s *cli.Shell, cfg *config.Config, id string) (runtimeDetail, error) {
	store, err := cli.OpenRedis(ctx, s, cfg)
	if err != nil {
		return runtimeDetail{}, err
	}
	at, rt, err := store.Runtime(ctx, id)
	if err != nil {
		return runtimeDetail{}, err
	}
	if at.Gone {
		rt.State, rt.Sequence = account.RuntimeGone, at.Sequence
	}
	detail := runtimeDetail{runtimeView: viewOfRuntime(id, at.Pool, rt), Differences: []string{}}
	if detail.Replies, err = repliesOf(ctx, s, cfg, id); err != nil {
		return runtimeDetail{}, err
	}
	if rt.State == "" {
		detail.State = stateNone
	}
	detail.compare()
	return detail, nil
}

// compare records the differences between the reply in force and Redis.
func (v *runtimeDetail) compare() {
	for _, l := range v.Replies {
		if !l.InForce || l.Reply.Decision == nil {
			continue
		}
		binding := ""
		if l.Reply.Binding != nil {
			binding = l.Reply.Binding.Name
		}
		switch {
		case l.Reply.Status == events.StatusAssigned && (v.State != account.RuntimeAssigned || v.Binding != binding):
			v.differ("the ledger has it assigned to %s, Redis has it %s", binding, v.told())
		case l.Reply.Status == events.StatusReleased && v.State != account.RuntimeGone:
			v.differ("the ledger has it released, Redis has it %s", v.told())
		}
	}
}

func (v *runtimeDetail) differ(text string, args ...any) {
	v.Differences = append(v.Differences, fmt.Sprintf(text, args...))
}

// told returns the state in Redis, with the account.
func (v *runtimeDetail) told() string {
	if v.Binding == "" {
		return string(v.State)
	}
	return string(v.State) + " (" + v.Binding + ")"
}

func (v runtimeList) Names() []string {
	return cli.NamesOf(v.Runtimes, func(r runtimeView) string { return r.RuntimeID })
}

func (v runtimeDetail) Names() []string { return []string{v.RuntimeID} }
