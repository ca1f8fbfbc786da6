package counterstest

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/hap-worker/hap-worker/engine"
	"github.com/hap-worker/hap-worker/engine/account"
)

// look is the contents of a pool's keys, read without the Store and decoded by docs/redis.md.
type look struct {
	status             account.Status // Built if there is an epoch
	server             string         // run id of the server on which the epoch was installed
	bindings           []account.NamedRecord
	runtimes           []account.NamedRuntime
	owned, on, waiting []string // members of the indexes t, u and w, sorted
	turns              map[string]int64
}

// look reads all keys of a pool in one round trip.
func (m *Machine) look(ctx context.Context, pool string) (look, error) {
	tag := m.prefix + ":{" + engine.Token(pool) + "}:"
	pipe := m.client.Pipeline()
	meta, bindings, runtimes := pipe.HGetAll(ctx, tag+"meta"), pipe.HGetAll(ctx, tag+"b"), pipe.HGetAll(ctx, tag+"r")
	owned, on, waiting := pipe.ZRange(ctx, tag+"t", 0, -1), pipe.ZRange(ctx, tag+"u", 0, -1), pipe.ZRange(ctx, tag+"w", 0, -1)
	turns := pipe.ZRangeWithScores(ctx, tag+"q", 0, -1)
	if _, err := pipe.Exec(ctx); err != nil {
		return look{}, err
	}
	var p parser
	l := look{server: meta.Val()["server"], turns: map[string]int64{}}
	l.bindings, l.runtimes = p.bindings(bindings.Val()), p.runtimes(runtimes.Val())
	l.owned, l.on, l.waiting = sorted(owned), sorted(on), sorted(waiting)
	for _, z := range turns.Val() {
		l.turns[fmt.Sprint(z.Member)] = int64(z.Score)
	}
	l.status = account.Status{
		Built: meta.Val()["epoch"] != "", Epoch: meta.Val()["epoch"], Paused: meta.Val()["paused"] == "1",
		Sequence: p.number(cmp.Or(meta.Val()["seq"], "0")),
		Waiting:  len(l.waiting), Bindings: len(l.bindings), Runtimes: len(l.runtimes),
	}
	return l, p.err
}

func sorted(members *redis.StringSliceCmd) []string {
	return slices.Sorted(slices.Values(members.Val()))
}

// queue returns the waiting runtimes in the order of service, computed from the records and the turns.
func (l look) queue() []account.Waiter {
	var waiters []account.Waiter
	for _, r := range l.runtimes {
		if r.State == account.RuntimeWaiting {
			waiters = append(waiters, account.Waiter{
				Runtime: r.ID, Tenant: r.Tenant, Request: r.Request, Sequence: r.Sequence, Turn: l.turns[r.Tenant],
			})
		}
	}
	account.InTurn(waiters)
	return waiters
}

// checkIndexes compares the indexes with the records: a tenant's bindings, the runtimes on bindings in
// claiming, and the waiting runtimes.
func (l look) checkIndexes() error {
	claiming := map[string]bool{}
	var owned, on, waiting []string
	for _, b := range l.bindings {
		if b.Tenant != "" && b.State != account.Free {
			owned = append(owned, b.Tenant+" "+b.Binding)
		}
		claiming[b.Binding] = b.State == account.Claiming
	}
	for _, r := range l.runtimes {
		switch {
		case r.State == account.RuntimeWaiting:
			waiting = append(waiting, r.ID)
		case r.State == account.RuntimeAssigned && claiming[r.Binding]:
			on = append(on, r.Binding+" "+r.ID)
		}
	}
	for _, index := range []struct {
		key       string
		got, want []string
	}{{"t", l.owned, owned}, {"u", l.on, on}, {"w", l.waiting, waiting}} {
		slices.Sort(index.want)
		if !slices.Equal(index.got, index.want) {
			return fmt.Errorf("index %s has %q, the records say %q", index.key, index.got, index.want)
		}
	}
	return nil
}

// CheckIndexes compares the indexes of a pool with its records. It accepts a pool that is not built,
// because its indexes are not read.
func (m *Machine) CheckIndexes(ctx context.Context, pool string) error {
	status, err := m.Status(ctx, pool)
	if err != nil || !status.Built {
		return err
	}
	l, err := m.look(ctx, pool)
	if err != nil {
		return err
	}
	return l.checkIndexes()
}

// parser reads packed records. err is the error of a record that it could not read.
type parser struct{ err error }

func (p *parser) number(text string) int64 {
	n, err := strconv.ParseInt(text, 10, 64)
	p.err = cmp.Or(p.err, err)
	return n
}

// fields splits a record into its seven fields.
func (p *parser) fields(name, packed string) []string {
	f := strings.Split(packed, "|")
	if len(f) != 7 {
		p.err = fmt.Errorf("the record of %s is unreadable: %q", name, packed)
		return make([]string, 7)
	}
	return f
}

func (p *parser) bindings(packed map[string]string) []account.NamedRecord {
	all := make([]account.NamedRecord, 0, len(packed))
	for name, text := range packed {
		f := p.fields(name, text)
		all = append(all, account.NamedRecord{Binding: name, Record: account.Record{
			State: account.State(f[0]), Tenant: f[1], Generation: p.number(f[2]), Confirmed: f[3] == "1",
			Count: int(p.number(f[4])), Claimed: p.number(f[5]), Pristine: f[6] == "1",
		}})
	}
	slices.SortFunc(all, func(a, b account.NamedRecord) int { return cmp.Compare(a.Binding, b.Binding) })
	return all
}

func (p *parser) runtimes(packed map[string]string) []account.NamedRuntime {
	all := make([]account.NamedRuntime, 0, len(packed))
	for id, text := range packed {
		f := p.fields(id, text)
		all = append(all, account.NamedRuntime{ID: id, Runtime: account.Runtime{
			State: account.RuntimeState(f[0]), Binding: f[1], Sequence: p.number(f[2]), Request: f[3],
			Confirmed: f[4] == "1", Origin: account.Origin(f[5]), Tenant: f[6],
		}})
	}
	slices.SortFunc(all, func(a, b account.NamedRuntime) int { return cmp.Compare(a.ID, b.ID) })
	return all
}
