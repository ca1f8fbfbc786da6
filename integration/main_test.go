// Package integration_test tests hap-worker with everything around it: a real
// nats-server, Redis and a Kubernetes API.
package integration_test

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"testing"
	"time"

	"github.com/hap-worker/hap-worker/engine/leaktest"
	"github.com/hap-worker/hap-worker/integration/stack"
)

// limit is how long a test may wait for anything; the first build of the
// Kubernetes API is inside of it.
const limit = 15 * time.Minute

// once is a stack that is started when the first test wants it.
type once struct {
	sync.Once
	stack *stack.Stack
	err   error
}

// The stacks of this test binary: on the usual Kubernetes API, on kube-apiserver with
// Gardener's kinds as CRDs, and with Gardener's own API server, as it is and without
// the checks that make it slow.
var shared, sharedCRD, sharedReal, sharedFast once

// usualGardener is where tests run that do not depend on what only kube-apiserver
// does: HAP_TEST_GARDENER=crd runs them there too.
var usualGardener = cmp.Or(os.Getenv("HAP_TEST_GARDENER"), stack.LightGardener)

// sharedStack returns the stack that all tests of this binary share, without
// accounts and workers. Tests keep apart by names of their own; one that stops a
// part starts a stack for itself.
func sharedStack(t *testing.T) *stack.Stack {
	t.Helper()
	return shared.start(t, stack.Options{Gardener: usualGardener})
}

// sharedCRDStack is sharedStack on kube-apiserver: for what integration/lightapi does
// not do, and to hold the two against one another.
func sharedCRDStack(t *testing.T) *stack.Stack {
	t.Helper()
	if usualGardener == stack.CRDGardener {
		return sharedStack(t)
	}
	return sharedCRD.start(t, stack.Options{Gardener: stack.CRDGardener})
}

// sharedRealStack is sharedStack with Gardener's own API server. That asks for
// rights; the stack's user has all.
func sharedRealStack(t *testing.T) *stack.Stack {
	t.Helper()
	return sharedReal.start(t, stack.Options{Gardener: stack.RealGardener, KubeArgs: []string{"--authorization-mode=RBAC"}})
}

// sharedFastStack is sharedRealStack without the check of what a binding refers to:
// with it, Gardener takes a few changes of bindings a second.
func sharedFastStack(t *testing.T) *stack.Stack {
	t.Helper()
	return sharedFast.start(t, stack.Options{
		Gardener: stack.RealGardener, GardenerArgs: []string{"--disable-admission-plugins=ResourceReferenceManager"},
	})
}

func (o *once) start(t *testing.T, options stack.Options) *stack.Stack {
	t.Helper()
	o.Do(func() {
		ctx, cancel := context.WithTimeout(context.Background(), limit)
		defer cancel()
		options.Accounts = []stack.Account{}
		o.stack, o.err = stack.Start(ctx, options)
	})
	if o.err != nil {
		t.Fatal(o.err)
	}
	return o.stack
}

// requireRedis ends a test that means nothing without a real redis-server: one
// that is not run says so, and fails where HAP_REQUIRE_ALL is set.
func requireRedis(t *testing.T) {
	t.Helper()
	_, err := exec.LookPath("redis-server")
	switch {
	case err == nil:
	case os.Getenv("HAP_REQUIRE_ALL") != "":
		t.Fatal("redis-server is required, and not on PATH")
	default:
		t.Skip("not run: redis-server is not on PATH")
	}
}

func TestMain(m *testing.M) {
	if os.Getenv(killStep) != "" {
		dieAtStep()
	}
	if os.Getenv(heldConfig) != "" {
		runHeld()
	}
	code := m.Run()
	for _, s := range []*stack.Stack{shared.stack, sharedCRD.stack, sharedReal.stack, sharedFast.stack} {
		if s == nil {
			continue
		}
		if err := s.Stop(); err != nil {
			fmt.Fprintln(os.Stderr, "stop the stack:", err)
			code = 1
		}
	}
	if code == 0 {
		if err := leaktest.Find(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	os.Exit(code)
}
