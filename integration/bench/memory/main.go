// Command memory measures a worker's memory in a large landscape: the resident set of a real hap-worker
// process after a garbage collection, with all watches running.
//
//	go run -C integration ./bench/memory
//
// It starts the development stack, creates the accounts, and a Shoot and a stored reply for every runtime,
// and starts one worker, which rebuilds Redis from them. It prints the resident set after a collection, and
// compares it with -limit. Then the program prints which share of a core the worker uses, and how many commands Redis
// executes a second, while nothing happens. With -memory-limit, the resident set must not have reached that one at any
// time. With -idle-plot, it does only this, in six landscapes at once, and draws it. Exit
// codes: 0 below the limits, 1 at a limit or above, or failure, 2 usage.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"time"

	"github.com/hap-worker/hap-worker/integration/bench/origin"
	"github.com/hap-worker/hap-worker/integration/stack"
)

// settings are the flags.
type settings struct {
	bindings, runtimes int
	resource           string
	gardener           string
	shootBytes         int
	blocks             bool
	limit              int // MiB, called MB in the output
	memoryLimit        int // MiB
	idle               time.Duration
	idlePlot           string
}

func main() {
	var s settings
	flag.IntVar(&s.bindings, "bindings", 10_000, "how many accounts there are")
	flag.IntVar(&s.runtimes, "runtimes", 100_000, "how many runtimes there are, each with a Shoot and a reply in the ledger")
	flag.StringVar(&s.resource, "resource", "credentialsbindings", "kind of the accounts: credentialsbindings, secretbindings or secrets")
	flag.StringVar(&s.gardener, "gardener", stack.CRDGardener, "where the accounts and Shoots are: crd, on kube-apiserver, or light, in this process, for more Shoots than etcd takes in a few minutes")
	flag.IntVar(&s.shootBytes, "shoot-bytes", 2000, "how large the manifest of a Shoot is, at least")
	flag.BoolVar(&s.blocks, "blocks", false, "each runtime has two network blocks")
	flag.IntVar(&s.limit, "limit", 75, "resident set in MB that is too much")
	flag.IntVar(&s.memoryLimit, "memory-limit", 0, "memory limit in MiB that the worker is told of and must stay below, as in a container; 0 for none")
	flag.DurationVar(&s.idle, "idle", 5*time.Minute, "how long the idle worker is watched; in a large landscape it rests for up to five minutes")
	flag.StringVar(&s.idlePlot, "idle-plot", "", "watch idle workers alone, in landscapes from 1,000 runtimes and 100 accounts to 1,000,000 and 100,000, and draw that into this file")
	flag.Parse()
	if flag.NArg() > 0 || s.bindings < 1 || s.runtimes < 1 {
		flag.Usage()
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, s)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "memory:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, s settings) error {
	if s.idlePlot != "" {
		return idlers(ctx, s)
	}
	return s.inLandscape(ctx, func(parts *stack.Stack) error { return measure(ctx, parts, s) })
}

// inLandscape starts the stack, fills it, and calls do.
func (s settings) inLandscape(ctx context.Context, do func(*stack.Stack) error) (err error) {
	root, err := stack.Root()
	if err != nil {
		return err
	}
	config := fmt.Sprintf("%s\nnetwork: {config: ipam}\npolicy: {catalog: %q, namespace: default}\ngardener: {resource: %s}\n",
		stack.InitialRules, filepath.Join(root, "deploy", "policy", "catalog"), s.resource)
	parts, err := stack.Start(ctx, stack.Options{Gardener: s.gardener, Config: []byte(config), Accounts: []stack.Account{}})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, parts.Stop()) }()
	fmt.Println(origin.Of(ctx))
	begun := time.Now()
	if err := seed(ctx, parts, s); err != nil {
		return err
	}
	fmt.Printf("%d bindings (%s), %d Shoots and %d replies made in %s\n", s.bindings, s.resource, s.runtimes, s.runtimes, time.Since(begun).Round(time.Second))
	return do(parts)
}
