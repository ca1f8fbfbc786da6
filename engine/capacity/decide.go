package capacity

import (
	"cmp"
	"fmt"
	"time"

	"github.com/hap-worker/hap-worker/engine/account"
)

// ask makes a request, which may find an account at once, wait, or be refused.
func (r *replay) ask(tenant string) error {
	name := r.cluster()
	r.tenants[name] = tenant
	found, err := r.assign(name, false)
	if err != nil {
		return err
	}
	r.count(found)
	if found {
		return nil
	}
	if r.of.Patience <= 0 {
		return r.forget(name, r.rules.Runtime(name).Sequence)
	}
	r.later(r.of.Patience, impatient, name)
	return nil
}

// count counts a request of now, unless the horizon has not begun.
func (r *replay) count(found bool) {
	if r.now < r.o.WarmUp {
		return
	}
	r.tally.requests++
	if !found {
		r.tally.waited++
		r.tally.first = min(r.tally.first, r.now-r.o.WarmUp)
	}
}

// assign asks the rules for an account for the cluster, and reports whether it got one. If so, it draws when
// the cluster ends.
func (r *replay) assign(cluster string, inTurn bool) (bool, error) {
	tenant := r.tenants[cluster]
	request := account.Request{
		Runtime: cluster, Request: cluster, Tenant: tenant, Terms: r.of.Terms(tenant), All: true, InTurn: inTurn, Now: r.of.Patience <= 0,
	}
	if last := len(r.free) - 1; last >= 0 {
		request.Seen = []account.Seen{{Binding: r.free[last], Generation: r.generations[r.free[last]]}}
	}
	r.tally.decisions++
	d, err := r.rules.Assign(request)
	if err != nil || d.Outcome != account.Assigned {
		return false, err
	}
	if d.Origin == account.Claimed {
		r.free = r.free[:len(r.free)-1]
		r.generations[d.Binding] = d.Generation
	}
	if !d.Confirmed {
		if confirmed, err := r.rules.Confirm(d.Claim(cluster)); err != nil || !confirmed {
			return false, cmp.Or(err, fmt.Errorf("the claim of %s is not confirmed", d.Binding))
		}
	}
	r.later(r.of.Demand.Lifetimes.Rest(r.random, 0), gone, cluster)
	return true, nil
}

// leave ends a cluster. If it was the account's last one, the cleaning of the account begins; otherwise
// waiting requests of the tenant may get its place.
func (r *replay) leave(cluster string) error {
	r.tally.decisions++
	d, err := r.rules.ReleaseRuntime(cluster, "", 0)
	if err != nil {
		return err
	}
	tenant := r.tenants[cluster]
	if err := r.forget(cluster, d.Sequence); err != nil {
		return err
	}
	if d.Count > 0 || d.State != account.Draining && d.State != account.Dirtying {
		return r.serve(tenant)
	}
	if _, err := r.rules.BeginDirtying(d.Binding, d.Generation); err != nil {
		return err
	}
	r.later(r.of.Demand.Cleanings.Rest(r.random, 0), cleaned, d.Binding)
	return nil
}

// release returns an account to its pool.
func (r *replay) release(name string) error {
	r.tally.decisions++
	freed, err := r.rules.MarkFreed(name, r.generations[name])
	if err != nil || !freed {
		return cmp.Or(err, fmt.Errorf("account %s is not freed", name))
	}
	r.free = append(r.free, name)
	return r.serve("")
}

// serve assigns accounts to waiting requests in their order, until one finds none. If tenant is not "", it
// serves only this tenant's requests, which may fit into the account that a cluster has left.
func (r *replay) serve(tenant string) error {
	if r.rules.Status().Waiting == 0 {
		return nil
	}
	queue, err := r.rules.Queue()
	if err != nil {
		return err
	}
	for _, w := range queue {
		if tenant != "" && w.Tenant != tenant {
			continue
		}
		found, err := r.assign(w.Runtime, true)
		if err != nil || !found {
			return err
		}
	}
	return nil
}

// refuse ends a request's wait, unless the request was served.
func (r *replay) refuse(cluster string) error {
	if r.rules.Runtime(cluster).State != account.RuntimeWaiting {
		return nil
	}
	d, err := r.rules.Refuse(cluster, cluster, r.rules.Runtime(cluster).Tenant, 0)
	if err != nil {
		return err
	}
	return r.forget(cluster, d.Sequence)
}

func (r *replay) forget(cluster string, sequence int64) error {
	delete(r.tenants, cluster)
	_, err := r.rules.Forget(cluster, sequence)
	return err
}

// giveUp counts the requests until the horizon as requests that find no account, without deciding them.
func (r *replay) giveUp() {
	for r.now < r.o.WarmUp+r.o.Horizon {
		next := r.interval()
		if next >= r.o.WarmUp+r.o.Horizon-r.now {
			break
		}
		r.now += max(next, time.Nanosecond)
		r.count(false)
	}
}
