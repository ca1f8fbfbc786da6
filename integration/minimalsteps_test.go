package integration_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/hap-worker/hap-worker/engine"
	"github.com/hap-worker/hap-worker/events"
	"github.com/hap-worker/hap-worker/events/requests"
	"github.com/hap-worker/hap-worker/integration/stack"
)

var (
	namespacesResource = schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}
	configMapsResource = schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}
)

// provision assigns the first tenant the only account, with a block of addresses and an
// implementation, and a copy of the answer in an inbox.
func (l *life) provision(ctx context.Context) (err error) {
	p := events.Provision{RuntimeID: "rt-1", GlobalAccountID: "ga-1", Plan: "aws", ReplyTo: "_INBOX.publisher.copies"}
	p.Cluster = &events.Cluster{Name: "rt-1", Namespace: "clusters", Purposes: []string{"mcp"}}
	p.Interface = &events.Interface{Path: postgres}
	if l.account, err = l.kyma.Provision(ctx, "req-1", p); err != nil {
		return err
	}
	if len(l.account.Network) != 1 || l.account.Implementation == nil {
		return fmt.Errorf("the answer has no block or no implementation: %+v", l.account)
	}
	select {
	case <-l.copies:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("no copy of the answer: %w", context.Cause(ctx))
	}
}

// wait has a second tenant wait, and a third whose runtime goes meanwhile.
func (l *life) wait(ctx context.Context) error {
	waits := make(chan events.Reply, 2)
	waiting := requests.OnWaiting(func(r events.Reply) {
		select {
		case waits <- r:
		default: // who waits is told again after a rebuild
		}
	})
	long := context.WithoutCancel(ctx)
	long, end := context.WithTimeout(long, stepLimit)
	l.later(end)
	go func() {
		r, err := l.kyma.Provision(long, "req-2", events.Provision{RuntimeID: "rt-2", GlobalAccountID: "ga-2", Plan: "aws"}, waiting)
		l.second <- waitDone{r, err}
	}()
	third := make(chan error, 1)
	go func() {
		_, err := l.kyma.Provision(long, "req-3", events.Provision{RuntimeID: "rt-3", GlobalAccountID: "ga-3", Plan: "aws"}, waiting)
		third <- err
	}()
	for range 2 {
		select {
		case <-waits:
		case <-ctx.Done():
			return fmt.Errorf("nobody waits: %w", context.Cause(ctx))
		}
	}
	if _, err := l.kyma.Deprovision(ctx, "bye-3", events.Deprovision{RuntimeID: "rt-3"}); err != nil {
		return err
	}
	select {
	case err := <-third:
		return refusedAs(err, engine.CodeSuperseded)
	case <-ctx.Done():
		return fmt.Errorf("who is gone still waits: %w", context.Cause(ctx))
	}
}

func (l *life) resolve(ctx context.Context) error {
	r, err := l.kyma.Resolve(ctx, "res-1", events.Resolve{RuntimeID: "rt-4", Interface: events.Interface{Path: postgres}})
	if err == nil && r.Implementation == nil {
		err = fmt.Errorf("resolved %+v", r)
	}
	return err
}

// deadLetter asks for an unknown plan.
func (l *life) deadLetter(ctx context.Context) error {
	_, err := l.kyma.Provision(ctx, "req-5", events.Provision{RuntimeID: "rt-5", GlobalAccountID: "ga-1", Plan: "mainframe"})
	if err := refusedAs(err, engine.CodeNoMatchingRule); err != nil {
		return err
	}
	return until(ctx, func() error {
		if letters, err := l.letters(ctx); err != nil || len(letters) == 0 {
			return fmt.Errorf("there is no dead letter: %w", err)
		}
		return nil
	})
}

// letters are the numbers of the dead letters.
func (l *life) letters(ctx context.Context) (numbers []uint64, err error) {
	out, err := l.hapctlDoes(ctx, []int{0}, "dead", "list", "-o", "json")
	if err != nil {
		return nil, err
	}
	var list struct {
		Letters []struct {
			Number uint64 `json:"number"`
		} `json:"letters"`
	}
	err = json.Unmarshal([]byte(out), &list)
	for _, letter := range list.Letters {
		numbers = append(numbers, letter.Number)
	}
	return numbers, err
}

// look reads everything with hapctl.
func (l *life) look(ctx context.Context) error {
	for _, args := range [][]string{{"pools"}, {"bindings"}, {"runtimes", "rt-1"}, {"waiting"}, {"explain", "rt-1"}, {"dead", "list"}} {
		if _, err := l.hapctlDoes(ctx, []int{0}, args...); err != nil {
			return err
		}
	}
	return nil
}

// deprovision empties the account, which is marked dirty since no Shoot refers to it.
func (l *life) deprovision(ctx context.Context) error {
	gone, err := l.kyma.Deprovision(ctx, "bye-1", events.Deprovision{RuntimeID: "rt-1"})
	if err == nil && !gone.MarkedDirty {
		err = fmt.Errorf("the account is not marked: %+v", gone)
	}
	l.account = gone
	return err
}

// follow changes policy and ranges under the running worker, and adds an account.
func (l *life) follow(ctx context.Context) error {
	if err := errors.Join(l.setPolicy(ctx, "azure"), l.setRanges(ctx, "other", "10.28.0.0/27")); err != nil {
		return err
	}
	if err := until(ctx, func() error {
		if n := strings.Count(l.log.String(), "applied the network configuration"); n < 2 {
			return fmt.Errorf("the ranges are taken over %d times: %s", n, tailOf(l.log.String()))
		}
		return nil
	}); err != nil {
		return err
	}
	n := 0
	return until(ctx, func() error {
		n++
		r, err := l.kyma.Resolve(ctx, fmt.Sprintf("res-azure-%d", n), events.Resolve{RuntimeID: "rt-4", Interface: events.Interface{Path: postgres}})
		if err == nil && r.Implementation.Path != "cap.implementation.azure.flexible-server.postgresql.install" {
			err = fmt.Errorf("still %s", r.Implementation.Path)
		}
		return err
	})
}

// rebuild loses what Redis has of this life, which its next event brings back.
func (l *life) rebuild(ctx context.Context) error {
	keys, err := l.redis.Keys(ctx, "hap:*").Result()
	if err != nil || len(keys) == 0 {
		return fmt.Errorf("Redis has %d keys: %w", len(keys), err)
	}
	return l.redis.Unlink(ctx, keys...).Err()
}

// release returns the account: who waits gets it.
func (l *life) release(ctx context.Context) error {
	r, err := l.cleanup.Release(ctx, "clean-1", events.Release{Binding: l.account.Binding.Name, Generation: &l.account.Binding.Generation})
	if err != nil || r.Status != events.StatusReturned {
		return fmt.Errorf("the release: %+v, %w", r, err)
	}
	select {
	case done := <-l.second:
		if done.err == nil && done.reply.Status != events.StatusAssigned {
			done.err = fmt.Errorf("who waited is %s", done.reply.Status)
		}
		if done.err != nil {
			return done.err
		}
	case <-ctx.Done():
		return fmt.Errorf("who waits is not served: %w", context.Cause(ctx))
	}
	config, err := l.stack.Kube.Config()
	if err != nil {
		return err
	}
	more := []stack.Account{{Name: "azure-01", HyperscalerType: "azure"}}
	if err := stack.CreateAccounts(ctx, config, stack.Target{Namespace: l.name, Resource: l.resource}, more); err != nil {
		return err
	}
	p := events.Provision{RuntimeID: "rt-6", GlobalAccountID: "ga-6", Plan: "azure"}
	p.Cluster = &events.Cluster{Name: "rt-6", Namespace: "clusters", Purposes: []string{"other"}}
	six, err := l.kyma.Provision(ctx, "req-6", p)
	if err == nil && len(six.Network) != 1 {
		err = fmt.Errorf("the changed ranges are not followed: %+v: %s", six, tailOf(l.log.String()))
	}
	if err != nil {
		return err
	}
	return l.full(ctx)
}

// full asks for a third block of a parent that has two, and takes that back.
func (l *life) full(ctx context.Context) error {
	cluster := func(id string) events.Provision {
		return events.Provision{RuntimeID: id, GlobalAccountID: "ga-6", Plan: "azure",
			Cluster: &events.Cluster{Name: id, Namespace: "clusters", Purposes: []string{"other"}}}
	}
	if _, err := l.kyma.Provision(ctx, "req-10", cluster("rt-10")); err != nil {
		return err
	}
	waits, refused := make(chan events.Reply, 1), make(chan error, 1)
	go func() {
		_, err := l.kyma.Provision(ctx, "req-9", cluster("rt-9"), requests.OnWaiting(func(r events.Reply) { waits <- r }))
		refused <- err
	}()
	select {
	case <-waits:
	case err := <-refused:
		return fmt.Errorf("without a free block nobody waits: %w", err)
	}
	if _, err := l.kyma.Deprovision(ctx, "bye-9", events.Deprovision{RuntimeID: "rt-9"}); err != nil {
		return err
	}
	if err := refusedAs(<-refused, engine.CodeSuperseded); err != nil {
		return err
	}
	_, err := l.kyma.Deprovision(ctx, "bye-10", events.Deprovision{RuntimeID: "rt-10"})
	return err
}

// drift makes a count wrong, which hapctl finds and mends, and builds it anew.
func (l *life) drift(ctx context.Context) error {
	key := "hap:{aws}:r"
	if n, err := l.redis.HDel(ctx, key, "rt-2").Result(); err != nil || n != 1 {
		return fmt.Errorf("%s has no rt-2: %w", key, err)
	}
	if _, err := l.hapctlDoes(ctx, []int{0, 5}, "counters", "verify", "--repair", "--yes"); err != nil {
		return err
	}
	if n, err := l.redis.HLen(ctx, key).Result(); err != nil || n == 0 {
		return fmt.Errorf("the drift is not mended: %d, %w", n, err)
	}
	_, err := l.hapctlDoes(ctx, []int{0}, "counters", "rebuild", "--yes")
	return err
}

// replay publishes the dead letter once more, and an operator's own requests.
func (l *life) replay(ctx context.Context) error {
	letters, err := l.letters(ctx)
	if err != nil {
		return err
	}
	for _, number := range letters {
		if _, err := l.hapctlDoes(ctx, []int{0, 4}, "dead", "replay", fmt.Sprint(number), "--yes"); err != nil {
			return err
		}
	}
	for _, args := range [][]string{
		{"provision", "--runtime", "rt-7", "--global-account", "ga-6", "--plan", "azure"},
		{"resolve", "--runtime", "rt-8", "--interface", postgres},
		{"deprovision", "--runtime", "rt-7"},
		{"deprovision", "--runtime", "rt-6"},
	} {
		if _, err := l.hapctlDoes(ctx, []int{0}, args...); err != nil {
			return err
		}
	}
	_, err = l.hapctlDoes(ctx, []int{0}, "release", "--binding", "azure-01")
	return err
}

// pause holds a pool and lets it go on; who asks meanwhile waits.
func (l *life) pause(ctx context.Context) error {
	if _, err := l.hapctlDoes(ctx, []int{0}, "pause", "aws"); err != nil {
		return err
	}
	_, err := l.hapctlDoes(ctx, []int{0}, "resume", "aws")
	return err
}

// content looks whether the worker is as ready as in the beginning and complains of
// nothing: a watch that is refused is a list again and again, and a script that is
// refused at its last command has decided when it is tried again.
func (l *life) content(ctx context.Context) error {
	for line := range strings.Lines(l.log.String()) {
		low := strings.ToLower(line)
		for _, complaint := range []string{"noperm", "acl failure", "can't run this command", "forbidden", "permissions violation"} {
			if strings.Contains(low, complaint) {
				return fmt.Errorf("the worker complains: %s", line)
			}
		}
	}
	return until(ctx, l.ready)
}
