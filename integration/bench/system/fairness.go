package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/hap-worker/hap-worker/events"
	"github.com/hap-worker/hap-worker/integration/bench/publishing"
	"github.com/hap-worker/hap-worker/integration/faulty"
	"github.com/hap-worker/hap-worker/integration/stack"
	"github.com/hap-worker/hap-worker/ledger/storage"
)

const (
	fairWorkers = 3
	flooded     = 20_000 // events of one tenant
	stuck       = 10_000 // events that cannot be completed
	quietTenant = 10     // undisturbed tenants, each with an account
	quietRate   = 200.0  // their events per second
	quietFor    = 10     // seconds
	pending     = 65_536 // nats.maxAckPending
	crowd       = 50     // the number of tenants of the stuck events, if they are provisions
)

// fairRound has the figures of a round: of the quiet tenants before the trouble, while its events arrive, and while
// they are stuck; and of the trouble.
type fairRound struct {
	Alone  latency `json:"alone"`
	Beside latency `json:"beside"`
	Stuck  latency `json:"stuck"` // zero for a flood, which ends
	// CPU in cores while the events arrived: workers, Redis, and this process, which contains NATS, the publisher,
	// the Kubernetes API and its proxy.
	CPU [3]float64 `json:"cpu"`
	// Left is the number of the trouble's events that depended on the fault when the last measurement began (see
	// left); 0 for a flood.
	Left int `json:"left"`
	// FloodAlone and FloodBeside are the rates in events per second of a flood alone and beside the quiet tenants.
	FloodAlone  float64 `json:"floodAlone,omitempty"`
	FloodBeside float64 `json:"floodBeside,omitempty"`
	Lost        int     `json:"unanswered"` // of the quiet tenants' events: not answered within the time limit of pace
}

// fairSite is a stack with several workers that reach Kubernetes through a proxy.
type fairSite struct {
	*bench
	trouble
	kube *faulty.KubeAPI
}

func openFair(ctx context.Context, s settings, t trouble) (f *fairSite, err error) {
	f = &fairSite{bench: &bench{settings: s}, trouble: t}
	defer func() {
		if err != nil {
			err = errors.Join(err, f.close())
		}
	}()
	if f.dir, err = os.MkdirTemp("", "hap-bench-"); err != nil {
		return f, err
	}
	f.stack, err = stack.Start(ctx, stack.Options{Gardener: stack.LightGardener, Config: []byte(config), Accounts: []stack.Account{}, Talk: io.Discard})
	if err != nil {
		return f, err
	}
	kube, err := f.stack.Kube.Config()
	if err != nil {
		return f, err
	}
	if err := stack.CreateAccounts(ctx, kube, f.stack.Target, f.accounts()); err != nil {
		return f, err
	}
	if f.kube, err = faulty.NewKubeAPI(kube); err != nil {
		return f, err
	}
	kubeconfig := filepath.Join(f.dir, "kubeconfig")
	if err := errors.Join(f.kube.WriteKubeconfig(kubeconfig), f.connect()); err != nil {
		return f, err
	}
	if _, err := storage.Setup(ctx, f.publish.js, storage.Options{Manage: true, MaxAckPending: pending}); err != nil {
		return f, err
	}
	if err := f.fillOwners(ctx); err != nil {
		return f, err
	}
	for range fairWorkers {
		if _, err := f.stack.AddWorker(ctx, io.Discard, "HAP_TELEMETRY_LOGLEVEL=error", fmt.Sprintf("HAP_NATS_MAXACKPENDING=%d", pending), "HAP_GARDENER_KUBECONFIG="+kubeconfig); err != nil {
			return f, err
		}
	}
	warm, err := f.quiet("warm", 10*quietTenant)
	if err != nil {
		return f, err
	}
	flood, err := f.publish.provision("warm-flood", nameFlood)
	if err != nil {
		return f, err
	}
	_, err = f.publish.answered(ctx, events.StreamReplies, append(warm, flood))
	return f, err
}

func (f *fairSite) close() error {
	if f.kube != nil {
		f.kube.Close()
	}
	return f.stop()
}

// accounts returns one account for each quiet tenant and for the flood, and the accounts of the trouble.
func (f *fairSite) accounts() (all []stack.Account) {
	for n := range quietTenant + 1 {
		all = append(all, stack.Account{Name: fmt.Sprintf("aws-%d", n), HyperscalerType: "aws"})
	}
	for n := range f.trouble.accounts {
		a := stack.Account{Name: fmt.Sprintf("azure-%05d", n), HyperscalerType: "azure"}
		if n < f.owners {
			a.Labels = map[string]string{"tenantName": fmt.Sprintf("owner-%d", n)}
		}
		all = append(all, a)
	}
	return all
}

// fillOwners stores a reply for a runtime of each owner, from which the workers rebuild Redis.
func (f *fairSite) fillOwners(ctx context.Context) error {
	one := 1
	for n := range f.owners {
		id, tenant := fmt.Sprintf("old-%d", n), fmt.Sprintf("owner-%d", n)
		r := events.Reply{
			RequestID: id, RuntimeID: id, Status: events.StatusAssigned, GlobalAccountID: tenant, Plan: "azure", Provider: "azure",
			Binding: &events.Binding{
				Name: fmt.Sprintf("azure-%05d", n), Namespace: f.stack.Target.Namespace, Kind: "CredentialsBinding", HyperscalerType: "azure",
			},
			Clusters: &one, Decision: &events.Decision{Sequence: int64(n + 1), Rule: "azure", RuleNumber: 3, Pool: "azure"},
		}
		data, err := events.EncodeReply(r, "/bench")
		if err != nil {
			return err
		}
		if _, err := f.publish.js.PublishAsync(f.publish.subjects.Reply(id, id), data); err != nil {
			return err
		}
	}
	return f.publish.js.Published(ctx)
}

func (f *fairSite) quiet(name string, n int) ([]event, error) {
	return makeEvents(n, func(i int) (event, error) {
		return f.publish.provision(fmt.Sprintf("%s-%d", name, i), fmt.Sprintf("ga-%d", i%quietTenant))
	})
}

func (f *fairSite) floodOf(name string, from int) ([]event, error) {
	return makeEvents(flooded, func(i int) (event, error) {
		return f.publish.provision(fmt.Sprintf("%s-%d", name, from+i), nameFlood)
	})
}

func (f *fairSite) provisions(plan string, n int) ([]event, error) {
	return makeEvents(n, func(i int) (event, error) {
		return f.publish.provisionOf(plan, fmt.Sprintf("stuck-%d", i), fmt.Sprintf("stuck-%d", i%crowd), "cf-eu10")
	})
}

func (f *fairSite) departures() ([]event, error) {
	return makeEvents(f.owners, func(i int) (event, error) {
		return f.publish.deprovision(fmt.Sprintf("old-%d", i), fmt.Sprintf("owner-%d", i))
	})
}

func makeEvents(n int, one func(int) (event, error)) ([]event, error) {
	batch := make([]event, n)
	for i := range batch {
		var err error
		if batch[i], err = one(i); err != nil {
			return nil, err
		}
	}
	return batch, nil
}

// breakPool makes all assignments of the pool azure fail: in Redis, the pool's hash of runtimes becomes a string.
func (f *fairSite) breakPool(ctx context.Context) error {
	client, err := f.redis()
	if err != nil {
		return err
	}
	defer func() { _ = client.Close() }()
	return errors.Join(client.Del(ctx, "hap:{azure}:r").Err(), client.Set(ctx, "hap:{azure}:r", "not a hash", 0).Err())
}

// measure measures the quiet tenants alone, then while the trouble arrives and then, unless it is a flood, while its
// events are stuck.
func (f *fairSite) measure(ctx context.Context) (round fairRound, err error) {
	if round.Alone, _, err = f.pace(ctx, "alone", nil); err != nil {
		return round, err
	}
	batch, err := f.batch(f)
	if err != nil {
		return round, err
	}
	if f.name == nameFlood {
		took, err := f.publish.answered(ctx, events.StreamReplies, batch)
		if err != nil {
			return round, err
		}
		round.FloodAlone = float64(len(batch)) / took.Seconds()
		if batch, err = f.floodOf("again", 0); err != nil {
			return round, err
		}
	} else if err := f.fault(ctx, f); err != nil {
		return round, err
	}
	before, err := f.usage(ctx, f.pids()...)
	if err != nil {
		return round, err
	}
	begin := time.Now()
	flood := make(chan error, 1)
	go func() {
		var err error
		if f.name == nameFlood {
			round.FloodBeside, err = f.floodBeside(ctx, batch)
		} else {
			err = f.publish.publish(ctx, batch)
		}
		flood <- err
	}()
	round.Beside, round.Lost, err = f.pace(ctx, "beside", flood)
	if err != nil {
		return round, err
	}
	after, err := f.usage(ctx, f.pids()...)
	for i := range after {
		round.CPU[i] = (after[i] - before[i]).Seconds() / time.Since(begin).Seconds()
	}
	if err != nil || f.name == nameFlood {
		return round, err
	}
	if round.Left, err = f.left(ctx); err != nil {
		return round, err
	}
	var lost int
	round.Stuck, lost, err = f.pace(ctx, "later", nil)
	round.Lost += lost
	return round, err
}

// left returns the number of the trouble's events that still depend on the fault: they wait, will be redelivered, or
// have left an account that is not marked dirty yet.
func (f *fairSite) left(ctx context.Context) (int, error) {
	if f.owners > 0 {
		client, err := f.unlimited()
		if err != nil {
			return 0, err
		}
		dirty, err := client.Resource(bindings).Namespace(f.stack.Target.Namespace).List(ctx, metav1.ListOptions{LabelSelector: "dirty=true"})
		if err != nil {
			return 0, err
		}
		return f.owners - len(dirty.Items), nil
	}
	left := 0
	for _, name := range []string{events.StreamEvents, events.StreamWaiting} {
		stream, err := f.publish.js.Stream(ctx, name)
		if err != nil {
			return 0, err
		}
		left += int(stream.CachedInfo().State.Msgs)
	}
	return left, nil
}

// floodBeside publishes the flood, waits until none of its events is left in the stream, and returns its rate.
func (f *fairSite) floodBeside(ctx context.Context, batch []event) (float64, error) {
	begin := time.Now()
	if err := f.publish.publish(ctx, batch); err != nil {
		return 0, err
	}
	stream, err := f.publish.js.Stream(ctx, events.StreamEvents)
	if err != nil {
		return 0, err
	}
	subject := f.publish.subjects.Provision(nameFlood)
	every := time.NewTicker(20 * time.Millisecond)
	defer every.Stop()
	for {
		select {
		case <-ctx.Done():
			return 0, context.Cause(ctx)
		case <-every.C:
		}
		_, err := stream.GetLastMsgForSubject(ctx, subject)
		switch {
		case isNotFound(err):
			return float64(len(batch)) / time.Since(begin).Seconds(), nil
		case err != nil:
			return 0, err
		}
	}
}

// pace lets the quiet tenants publish at their rate, and returns the latency and how many events were not answered
// within a minute of the last publish. If trouble is not nil, pace then waits until it has received from trouble.
func (f *fairSite) pace(ctx context.Context, name string, trouble <-chan error) (l latency, lost int, err error) {
	n := int(quietRate * quietFor)
	batch, err := f.quiet(name, n)
	if err != nil {
		return l, 0, err
	}
	nc, publish, err := f.publisher() // a separate connection, so that messages of others do not queue ahead
	if nc != nil {
		defer nc.Close()
	}
	if err != nil {
		return l, 0, err
	}
	runtime.GC()
	within, cancel := context.WithTimeoutCause(ctx, (quietFor+60)*time.Second, errors.New("not answered in a minute"))
	defer cancel()
	took, err := publish.paced(within, publish.subjects.Replies(), batch, quietRate)
	lost = n - len(took)
	if err != nil && (lost == 0 || ctx.Err() != nil || errors.Is(err, publishing.ErrRefused)) {
		return l, lost, err
	}
	if trouble != nil {
		if err := <-trouble; err != nil {
			return l, lost, err
		}
	}
	for range lost {
		took = append(took, time.Minute) // it has waited for so long at least
	}
	slices.Sort(took)
	return latency{Rate: quietRate, P50: milliseconds(took[n/2]), P99: milliseconds(took[n*99/100]), Max: milliseconds(took[n-1])}, lost, nil
}
