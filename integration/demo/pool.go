package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/hap-worker/hap-worker/events"
	"github.com/hap-worker/hap-worker/events/requests"
)

// scarce is the number of accounts in the pool of plan gcp in cf-sa30.
const scarce = 6

// inScarcePool returns a cluster that only the pool gcp_cf-sa30 can serve.
func inScarcePool(runtime, tenant string) wish {
	return wish{runtime, tenant, "gcp", "cf-sa30", "southamerica-east1", ""}
}

// answered is the result of a request that waited, and when it came.
type answered struct {
	reply events.Reply
	err   error
	at    time.Time
}

// emptyPool claims all accounts of a pool, makes two tenants wait, empties an account, and releases it like
// the cleanup job.
func (d *demo) emptyPool() error {
	for n := range scarce {
		if _, err := d.provision(inScarcePool(fmt.Sprintf("rt-sa-%d", n+1), fmt.Sprintf("ga-sa-%d", n+1))); err != nil {
			return err
		}
	}
	fmt.Fprintf(d.out, "  All %d accounts of pool gcp_cf-sa30 are claimed. Two more tenants ask:\n\n", scarce)
	ctx, stop := context.WithCancel(d.ctx)
	defer stop()
	first, err := d.wait(ctx, inScarcePool("rt-sa-7", "ga-sa-7"))
	if err != nil {
		return err
	}
	if _, err := d.wait(ctx, inScarcePool("rt-sa-8", "ga-sa-8")); err != nil {
		return err
	}
	if err := d.hapctl("waiting"); err != nil {
		return err
	}
	returned, err := d.emptyAccount("rt-sa-1")
	if err != nil {
		return err
	}
	select {
	case a := <-first:
		if a.err != nil {
			return a.err
		}
		fmt.Fprintf(d.out, "  rt-sa-7, the first in the queue, gets %s %.0f ms later. rt-sa-8 moves up:\n\n", a.reply.Binding.Name,
			max(0, float64(a.at.Sub(returned).Microseconds())/1000))
	case <-time.After(oneAnswer):
		return fmt.Errorf("rt-sa-7 was not served within %s", oneAnswer)
	}
	return d.hapctl("waiting")
}

// wait requests a cluster, and returns when the request waits. The final reply follows on the channel, or an
// error if ctx ends before.
func (d *demo) wait(ctx context.Context, w wish) (<-chan answered, error) {
	waits, final := make(chan struct{}, 1), make(chan answered, 1)
	go func() {
		r, err := d.client.Provision(ctx, "req-"+w.runtime, w.request(), requests.OnWaiting(func(events.Reply) {
			select {
			case waits <- struct{}{}:
			default:
			}
		}))
		final <- answered{r, err, time.Now()}
	}()
	select {
	case <-waits:
		return final, nil
	case a := <-final:
		return nil, errors.Join(a.err, fmt.Errorf("%s was answered %s instead of waiting", w.runtime, a.reply.Status))
	case <-time.After(oneAnswer):
		return nil, fmt.Errorf("%s does not wait after %s", w.runtime, oneAnswer)
	}
}

// emptyAccount deprovisions the last cluster of an account, and releases the account like the cleanup job. It
// returns the time at which it requested the release.
func (d *demo) emptyAccount(runtime string) (time.Time, error) {
	ctx, cancel := context.WithTimeout(d.ctx, oneAnswer)
	defer cancel()
	gone, err := d.client.Deprovision(ctx, "bye-"+runtime, events.Deprovision{RuntimeID: runtime})
	if err != nil {
		return time.Time{}, err
	}
	fmt.Fprintf(d.out, "\n  %s, the only cluster of %s, is deprovisioned: the account is marked dirty.\n", runtime, gone.Binding.Name)
	generation := gone.Binding.Generation
	before := time.Now()
	if _, err := d.client.Release(ctx, "clean-"+gone.Binding.Name, events.Release{Binding: gone.Binding.Name, Generation: &generation}); err != nil {
		return time.Time{}, err
	}
	fmt.Fprintf(d.out, "  The cleanup job has emptied %s and returns it.\n", gone.Binding.Name)
	return before, nil
}
