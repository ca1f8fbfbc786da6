// Command demo shows what hap-worker does, on real parts and without containers:
// it starts NATS, Redis, a Kubernetes API with demo accounts and two workers,
// provisions clusters of every plan of the initial rules, shows who got which
// account and why, and stops everything.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/hap-worker/hap-worker/cmd/operator"
	"github.com/hap-worker/hap-worker/events"
	"github.com/hap-worker/hap-worker/integration/stack"
)

// oneAnswer bounds the wait for an answer.
const oneAnswer = 30 * time.Second

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "demo:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, out io.Writer) (err error) {
	begin := time.Now()
	fmt.Fprintln(out, "Starting NATS, Redis, a Kubernetes API with demo accounts, and two workers.")
	config, err := withPolicy()
	if err != nil {
		return err
	}
	s, err := stack.Start(ctx, stack.Options{Workers: 2, Config: config})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Stop()) }()
	fmt.Fprintf(out, "Ready after %.1f s; Redis is a %s.\n\n", time.Since(begin).Seconds(), s.Summary().RedisKind)

	nc, err := nats.Connect(s.NATS.URL(), nats.MaxReconnects(-1))
	if err != nil {
		return err
	}
	defer nc.Close()
	client, err := events.NewClient(nc, events.ClientOptions{Source: "/demo"})
	if err != nil {
		return err
	}
	defer client.Close()
	d := demo{ctx: ctx, out: out, client: client}
	if err := d.tell(); err != nil {
		return err
	}
	return d.showPools(s)
}

type demo struct {
	ctx    context.Context
	out    io.Writer
	client *events.Client
}

// tell is the story of the demo.
func (d demo) tell() error {
	fmt.Fprintln(d.out, "Clusters of every plan, and the account that each gets:")
	if err := d.provisionAll(); err != nil {
		return err
	}
	fmt.Fprintln(d.out, "\nThe same request once more has the same answer:")
	if err := d.table(wishes()[:1]); err != nil {
		return err
	}
	fmt.Fprintln(d.out, "\nA plan that no rule knows:")
	_, err := d.provision(wish{"rt-mainframe", "ga-lime", "mainframe", "", "", ""})
	var rejected *events.Rejected
	if !errors.As(err, &rejected) {
		return fmt.Errorf("the unknown plan was answered %w", err)
	}
	fmt.Fprintf(d.out, "  %s: %s\n", rejected.Reply.Error.Code, rejected.Reply.Error.Message)
	if err := d.implementations(); err != nil {
		return err
	}
	return d.lastClusterGoes()
}

// lastClusterGoes empties an account and gives it back to its pool.
func (d demo) lastClusterGoes() error {
	ctx, cancel := context.WithTimeout(d.ctx, oneAnswer)
	defer cancel()
	r, err := d.client.Deprovision(ctx, "bye-"+"rt-sa-1", events.Deprovision{RuntimeID: "rt-sa-1", GlobalAccountID: "ga-mint"})
	if err != nil {
		return err
	}
	fmt.Fprintf(d.out, "\nThe last cluster of %s goes: released, marked dirty: %t.\n", r.Binding.Name, r.MarkedDirty)
	generation := r.Binding.Generation
	back, err := d.client.Release(ctx, "clean-"+r.Binding.Name, events.Release{Binding: r.Binding.Name, Generation: &generation})
	if err != nil {
		return err
	}
	fmt.Fprintf(d.out, "The cleanup job has emptied %s: %s, and it can be claimed again.\n", back.Binding.Name, back.Status)
	return nil
}

// wish is a cluster that somebody wants.
type wish struct{ runtime, tenant, plan, platformRegion, region, provider string }

func wishes() []wish {
	return []wish{
		{"rt-aws-1", "ga-lime", "aws", "cf-us10", "us-east-1", ""},
		{"rt-aws-2", "ga-lime", "aws", "cf-us10", "us-east-1", ""},
		{"rt-aws-3", "ga-mint", "aws", "cf-us10", "us-east-1", ""},
		{"rt-aws-eu", "ga-lime", "aws", "cf-eu11", "eu-central-1", ""},
		{"rt-azure-1", "ga-lime", "azure", "cf-eu20", "westeurope", ""},
		{"rt-azure-ch", "ga-mint", "azure", "cf-ch20", "switzerlandnorth", ""},
		{"rt-lite", "ga-lime", "azure_lite", "cf-eu20", "westeurope", ""},
		{"rt-gcp-1", "ga-lime", "gcp", "cf-eu30", "europe-west3", ""},
		{"rt-sa-1", "ga-mint", "gcp", "cf-sa30", "me-central2", ""},
		{"rt-cc-1", "ga-lime", "sap-converged-cloud", "cf-eu20", "eu-de-1", ""},
		{"rt-cc-2", "ga-mint", "sap-converged-cloud", "cf-eu20", "eu-de-2", ""},
		{"rt-trial-1", "ga-lime", "trial", "cf-us10", "us-east-1", "aws"},
		{"rt-trial-2", "ga-mint", "trial", "cf-us10", "us-east-1", "aws"},
		{"rt-trial-3", "ga-mint", "trial", "cf-us21", "eastus", "azure"},
		{"rt-free", "ga-plum", "free", "cf-eu20", "westeurope", "azure"},
		{"rt-preview", "ga-plum", "preview", "cf-us10", "us-east-1", ""},
	}
}

func (d demo) provisionAll() error { return d.table(wishes()) }

func (d demo) provision(w wish) (events.Reply, error) {
	ctx, cancel := context.WithTimeout(d.ctx, oneAnswer)
	defer cancel()
	return d.client.Provision(ctx, "req-"+w.runtime, events.Provision{
		RuntimeID: w.runtime, GlobalAccountID: w.tenant, Plan: w.plan,
		PlatformRegion: w.platformRegion, HyperscalerRegion: w.region, Provider: w.provider,
		ShootName: "c-" + strings.TrimPrefix(w.runtime, "rt-"),
	})
}

func (d demo) table(wanted []wish) error {
	t := tabwriter.NewWriter(d.out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "  RUNTIME\tTENANT\tPLAN\tACCOUNT\tCLUSTERS\tRULE\tWHY")
	for _, w := range wanted {
		begin := time.Now()
		r, err := d.provision(w)
		if err != nil {
			return fmt.Errorf("provision of %s: %w", w.runtime, err)
		}
		fmt.Fprintf(t, "  %s\t%s\t%s\t%s\t%d\t%s\t%s in %.1f ms\n", w.runtime, w.tenant, w.plan,
			r.Binding.Name, *r.Clusters, r.Decision.Rule, why(r), float64(time.Since(begin).Microseconds())/1000)
	}
	return t.Flush()
}

// why says in a few words how the account was found.
func why(r events.Reply) string {
	switch {
	case r.Binding.Shared:
		return "the least used shared account"
	case r.Binding.Claimed:
		return "claimed for this request"
	default:
		return "the tenant's own account"
	}
}

// showPools runs what an operator would: hapctl pools.
func (d demo) showPools(s *stack.Stack) error {
	fmt.Fprintln(d.out, "\n$ hapctl pools")
	code := operator.Run(d.ctx, []string{
		"pools", "--config", s.Config, "--nats-url", s.NATS.URL(), "--redis-url", s.Redis.URL(), "--kubeconfig", s.Kube.Kubeconfig(),
	}, strings.NewReader(""), d.out, os.Stderr)
	if code != 0 {
		return fmt.Errorf("hapctl pools ended with %d", code)
	}
	return nil
}
