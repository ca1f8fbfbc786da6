package repair

import (
	"context"
	"fmt"
	"iter"
	"sync"
	"time"

	"github.com/hap-worker/hap-worker/cmd/hapctl/cli"
	"github.com/hap-worker/hap-worker/engine"
	"github.com/hap-worker/hap-worker/engine/account"
	"github.com/hap-worker/hap-worker/events"
	"github.com/hap-worker/hap-worker/ledger/storage"
	"github.com/hap-worker/hap-worker/worker/audit"
	"github.com/hap-worker/hap-worker/worker/observe"
	"github.com/hap-worker/hap-worker/worker/rebuild"
)

// progress shows on stderr how far a long command is: a line for each stage and, on a terminal, a count in
// the same line. It is safe for concurrent use.
type progress struct {
	shell *cli.Shell
	live  bool // stderr is a terminal

	mu    sync.Mutex
	text  string // of the present stage, "" for none
	done  int
	drawn time.Time
}

func newProgress(s *cli.Shell) *progress {
	return &progress{shell: s, live: s.Stderr.Moves()}
}

// stage begins a stage, and ends the one before.
func (p *progress) stage(text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.finish()
	if !p.live {
		p.shell.Say("%s", text)
		return
	}
	p.text, p.done = text, 0
	p.draw()
}

// one counts one thing that was read or done.
func (p *progress) one() {
	if !p.live {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.done++
	if p.text != "" && time.Since(p.drawn) >= cli.DrawEvery {
		p.draw()
	}
}

// end ends the present stage, if there is one, so that the next message begins a new line.
func (p *progress) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.finish()
}

func (p *progress) finish() {
	if p.text == "" {
		return
	}
	p.draw()
	fmt.Fprintln(p.shell.Stderr)
	p.text = ""
}

func (p *progress) draw() {
	p.drawn = time.Now()
	_ = p.shell.Stderr.Control(cli.LineStart) // like Say, it has no way to report an error
	fmt.Fprintf(p.shell.Stderr, "hapctl: %s", p.text)
	if p.done > 0 {
		fmt.Fprintf(p.shell.Stderr, ": %d", p.done)
	}
}

// rebuilds begins the stage that follows a finished step of a rebuild. It counts each place that is
// installed.
func (p *progress) rebuilds(_ context.Context, done observe.Step) {
	switch done {
	case observe.StepToken:
		p.stage("rebuild: sealing what is not settled")
	case observe.StepSealed:
		p.stage("rebuild: reading ledger, labels and Shoots")
	case observe.StepGathered:
		p.stage("rebuild: putting pools and directory in place")
	case observe.StepInstalled:
		p.one()
	}
}

// counted returns a function that counts its calls and calls f.
func counted[T any](p *progress, f func(T) error) func(T) error {
	return func(v T) error {
		p.one()
		return f(v)
	}
}

// countedLedger counts the replies that are read.
type countedLedger struct {
	*storage.Ledger
	progress *progress
}

func (a countedLedger) Each(ctx context.Context, f func(events.Stored) error) error {
	return a.Ledger.Each(ctx, counted(a.progress, f))
}

func (a countedLedger) Facts(ctx context.Context, f func(storage.Fact) error) error {
	return a.Ledger.Facts(ctx, counted(a.progress, f))
}

// countedGardener counts the bindings and Shoots that are read.
type countedGardener struct {
	rebuild.Inventory
	progress *progress
}

func (c countedGardener) List(ctx context.Context, f func(engine.Binding) error) error {
	return c.Inventory.List(ctx, counted(c.progress, f))
}

func (c countedGardener) EachShoot(ctx context.Context, restart func(), f func(engine.Shoot)) error {
	return c.Inventory.EachShoot(ctx, restart, func(s engine.Shoot) {
		c.progress.one()
		f(s)
	})
}

// countedRedis counts the runtimes that are read from Redis.
type countedRedis struct {
	audit.Records
	progress *progress
}

func (b countedRedis) Runtimes(ctx context.Context, pool string) iter.Seq2[account.NamedRuntime, error] {
	return func(yield func(account.NamedRuntime, error) bool) {
		for r, err := range b.Records.Runtimes(ctx, pool) {
			b.progress.one()
			if !yield(r, err) {
				return
			}
		}
	}
}
