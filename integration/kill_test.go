package integration_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/hap-worker/hap-worker/cmd/daemon"
	"github.com/hap-worker/hap-worker/events"
	"github.com/hap-worker/hap-worker/integration/checker"
	"github.com/hap-worker/hap-worker/integration/stack"
	"github.com/hap-worker/hap-worker/worker/observe"
)

// The environment that turns this test binary into a worker which kills itself:
// with the configuration of killConfig, at the step of killStep.
const (
	killConfig = "HAPTEST_KILL_CONFIG"
	killStep   = "HAPTEST_KILL_STEP"
)

// dieAtStep is the body of such a process. It does not return.
func dieAtStep() {
	step := observe.Step(os.Getenv(killStep))
	err := daemon.Run(context.Background(), daemon.Options{
		ConfigPath: os.Getenv(killConfig),
		Env:        []string{"HAP_TELEMETRY_LISTEN=127.0.0.1:0"},
		OnStep: func(s observe.Step) {
			if s == step {
				_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
				select {} // no further step before the signal arrives
			}
		},
	})
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

// TestKilledBetweenSteps kills a worker with SIGKILL after each step of an
// event's path and lets another one go on: one answer, one effect.
func TestKilledBetweenSteps(t *testing.T) {
	t.Parallel()
	s := startStack(t, stack.Options{
		Config:   []byte(oneAccountRules + "worker: {ackWait: 2s, budget: 1s, drain: 1s}\n"),
		Accounts: roomyAccounts(len(observe.Steps()) + 3),
	})
	p := newPublisher(t, s)
	goOn(t, s, p) // sets up the streams
	for i, step := range []observe.Step{
		observe.StepReceived, observe.StepLocated, observe.StepAssigned, observe.StepLabelled,
		observe.StepConfirmed, observe.StepPublished, observe.StepSettled,
	} {
		t.Run("provision killed once "+string(step), func(t *testing.T) {
			id := fmt.Sprintf("rt-%d", i)
			p.publish(events.Event{
				Type: events.TypeProvision, ID: "req-" + id, Source: "/integration", RuntimeID: id,
				Provision: &events.Provision{RuntimeID: id, GlobalAccountID: fmt.Sprintf("ga-%d", i), Plan: "aws"},
			}, "")
			p.flush()
			killedAt(t, s, step)
			goOn(t, s, p)
			replies := p.replies(id)
			if len(replies) != 1 || replies[0].Status != events.StatusAssigned {
				t.Fatalf("the reply is %+v", replies)
			}
			if !replies[0].Binding.Claimed || *replies[0].Clusters != 1 {
				t.Errorf("%s has %d clusters, claimed by this request: %t; want 1, true",
					replies[0].Binding.Name, *replies[0].Clusters, replies[0].Binding.Claimed)
			}
			p.check(t)
		})
	}
	for i, step := range []observe.Step{
		observe.StepReceived, observe.StepLocated, observe.StepDeparted, observe.StepDirtying, observe.StepPublished,
	} {
		t.Run("deprovision killed once "+string(step), func(t *testing.T) {
			id := fmt.Sprintf("rt-%d", i)
			p.deprovision(events.Event{
				Type: events.TypeDeprovision, ID: "bye-" + id, Source: "/integration", RuntimeID: id,
				Deprovision: &events.Deprovision{RuntimeID: id, GlobalAccountID: fmt.Sprintf("ga-%d", i)},
			})
			p.flush()
			killedAt(t, s, step)
			goOn(t, s, p)
			r := p.replies(id)[0]
			if r.Status != events.StatusReleased || !r.MarkedDirty || *r.Clusters != 0 {
				t.Errorf("the reply is %+v", r)
			}
			if b := p.facts().Bindings[r.Binding.Name]; !b.Dirty || b.Tenant != fmt.Sprintf("ga-%d", i) {
				t.Errorf("binding %+v, want dirty and still its tenant's", b)
			}
			p.check(t)
		})
	}
}

// killedAt runs a worker until it has killed itself at the step.
func killedAt(t *testing.T, s *stack.Stack, step observe.Step) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var log strings.Builder
	c := exec.CommandContext(ctx, os.Args[0])
	c.Env = append(os.Environ(), killConfig+"="+s.Config, killStep+"="+string(step))
	c.Stdout, c.Stderr = &log, &log
	err := c.Run()
	if status, ok := c.ProcessState.Sys().(syscall.WaitStatus); !ok || status.Signal() != syscall.SIGKILL || ctx.Err() != nil {
		t.Fatalf("the worker was to die at step %s and ended with %v:\n%s", step, err, log.String())
	}
}

// goOn lets a worker that nothing kills settle everything.
func goOn(t *testing.T, s *stack.Stack, p *publisher) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- daemon.Run(ctx, daemon.Options{ConfigPath: s.Config, Env: []string{"HAP_TELEMETRY_LISTEN=127.0.0.1:0"}, Log: t.Output()})
	}()
	p.awaitSettled()
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// check fails the test for every invariant that does not hold.
func (p *publisher) check(t *testing.T) {
	t.Helper()
	for _, violation := range p.facts().Violations(checker.Terms{OneAccount: true}) {
		t.Error(violation)
	}
}
