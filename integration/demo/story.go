package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/hap-worker/hap-worker/cmd/hapctl/app"
	"github.com/hap-worker/hap-worker/events"
	"github.com/hap-worker/hap-worker/events/requests"
	"github.com/hap-worker/hap-worker/integration/stack"
)

// oneAnswer is the time limit of an answer, and of all answers of the race.
const oneAnswer = 30 * time.Second

// demo is the running stack and the publisher of its stories.
type demo struct {
	ctx    context.Context
	out    io.Writer
	client *requests.Client
	stack  *stack.Stack
}

// tell tells all stories in order.
func (d *demo) tell() error {
	for number, story := range []struct {
		title string
		tell  func() error
	}{
		{"Every plan has a rule, every rule a pool of accounts", d.plans},
		{"A tenant at its limit gets a second account", d.secondAccount},
		{"An empty pool: who waits is served when an account comes back", d.emptyPool},
		{"A worker dies in the middle: every request has one answer", d.workerKilled},
		{"Why: the record of one decision", d.why},
	} {
		fmt.Fprintf(d.out, "\n%d. %s\n\n", number+1, story.title)
		if err := story.tell(); err != nil {
			return err
		}
	}
	return nil
}

// wish is a cluster to be provisioned.
type wish struct{ runtime, tenant, plan, platformRegion, region, provider string }

func (w wish) request() events.Provision {
	return events.Provision{
		RuntimeID: w.runtime, GlobalAccountID: w.tenant, Plan: w.plan,
		PlatformRegion: w.platformRegion, HyperscalerRegion: w.region, Provider: w.provider,
		ShootName: "c-" + strings.TrimPrefix(w.runtime, "rt-"),
	}
}

// plans provisions clusters of every plan of the initial rules, and one of a plan without a rule. Then it asks the
// policy for an implementation.
func (d *demo) plans() error {
	err := d.table([]wish{
		{"rt-aws-1", "ga-lime", "aws", "cf-us10", "us-east-1", ""},
		{"rt-aws-2", "ga-lime", "aws", "cf-us10", "us-east-1", ""},
		{"rt-aws-3", "ga-mint", "aws", "cf-us10", "us-east-1", ""},
		{"rt-aws-eu", "ga-lime", "aws", "cf-eu11", "eu-central-1", ""},
		{"rt-azure-ch", "ga-mint", "azure", "cf-ch20", "switzerlandnorth", ""},
		{"rt-lite", "ga-lime", "azure_lite", "cf-eu20", "westeurope", ""},
		{"rt-gcp-1", "ga-lime", "gcp", "cf-eu30", "europe-west3", ""},
		{"rt-cc-1", "ga-lime", "sap-converged-cloud", "cf-eu20", "eu-de-1", ""},
		{"rt-trial-1", "ga-lime", "trial", "cf-us10", "us-east-1", "aws"},
		{"rt-trial-2", "ga-mint", "trial", "cf-us21", "eastus", "azure"},
		{"rt-free", "ga-plum", "free", "cf-eu20", "westeurope", "azure"},
		{"rt-preview", "ga-plum", "preview", "cf-us10", "us-east-1", ""},
	})
	if err != nil {
		return err
	}
	_, err = d.provision(wish{"rt-gdch", "ga-lime", "gdch", "", "", ""})
	rejected, refused := errors.AsType[*requests.Rejected](err)
	if !refused {
		return fmt.Errorf("the plan gdch has no rule and was answered %w", err)
	}
	fmt.Fprintf(d.out, "\n  A plan without a rule is rejected, %s:\n  %s.\n", rejected.Reply.Error.Code, rejected.Reply.Error.Message)
	return d.implementation()
}

// secondAccount provisions five clusters of a tenant. An account of azure has room for three.
func (d *demo) secondAccount() error {
	var wishes []wish
	for n := range 5 {
		wishes = append(wishes, wish{fmt.Sprintf("rt-kiwi-%d", n+1), "ga-kiwi", "azure", "cf-eu20", "westeurope", ""})
	}
	return d.table(wishes)
}

func (d *demo) provision(w wish, options ...requests.RequestOption) (events.Reply, error) {
	ctx, cancel := context.WithTimeout(d.ctx, oneAnswer)
	defer cancel()
	return d.client.Provision(ctx, "req-"+w.runtime, w.request(), options...)
}

// table provisions clusters one after the other, and prints the account of each.
func (d *demo) table(wanted []wish) error {
	t := tabwriter.NewWriter(d.out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "  RUNTIME\tTENANT\tPLAN\tREGION\tACCOUNT\tCLUSTERS\tHOW")
	for _, w := range wanted {
		r, err := d.provision(w)
		if err != nil {
			return fmt.Errorf("provision of %s: %w", w.runtime, err)
		}
		fmt.Fprintf(t, "  %s\t%s\t%s\t%s\t%s\t%s\t%s\n", w.runtime, w.tenant, w.plan, w.platformRegion, r.Binding.Name, clusters(r), how(r))
	}
	return t.Flush()
}

// clusters returns the number of clusters on the account and, unless it is shared or has none, its limit.
func clusters(r events.Reply) string {
	if r.Limit == 0 || r.Binding.Shared {
		return fmt.Sprint(*r.Clusters)
	}
	return fmt.Sprintf("%d of %d", *r.Clusters, r.Limit)
}

// how describes how the account was chosen.
func how(r events.Reply) string {
	switch {
	case r.Binding.Shared:
		return "the least used shared account"
	case r.Binding.Claimed:
		return "claimed for this request"
	default:
		return "the tenant's own account"
	}
}

// hapctl runs a command of hapctl, and prints the command and its output.
func (d *demo) hapctl(args ...string) error {
	fmt.Fprintf(d.out, "$ hapctl %s\n", strings.Join(args, " "))
	s := d.stack
	connected := slices.Concat(args, []string{
		"--config", s.Config, "--nats-url", s.NATS.URL(), "--redis-url", s.Redis.URL(), "--kubeconfig", s.Kube.Kubeconfig(),
	})
	if code := app.Run(d.ctx, connected, strings.NewReader(""), d.out, os.Stderr); code != 0 {
		return fmt.Errorf("hapctl %s ended with %d", strings.Join(args, " "), code)
	}
	return nil
}
