package worker_test

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/datadriven"

	"github.com/hap-worker/hap-worker/engine/network"
	"github.com/hap-worker/hap-worker/engine/policy"
	"github.com/hap-worker/hap-worker/engine/terms"
	"github.com/hap-worker/hap-worker/events"
	"github.com/hap-worker/hap-worker/ledger/storage"
	"github.com/hap-worker/hap-worker/worker"
	"github.com/hap-worker/hap-worker/worker/audit"
	"github.com/hap-worker/hap-worker/worker/config"
	"github.com/hap-worker/hap-worker/worker/memory"
	"github.com/hap-worker/hap-worker/worker/memory/memorytest"
	"github.com/hap-worker/hap-worker/worker/ranges"
	"github.com/hap-worker/hap-worker/worker/rebuild"
	"github.com/hap-worker/hap-worker/worker/reconcile"
	"github.com/hap-worker/hap-worker/worker/retention"
)

// TestStories runs the stories of testdata on a whole worker in a bubble: all of its code,
// and package memory for NATS, Redis and Gardener. A line is a command, the lines under
// ---- are what happened until nothing moved any more. story_commands_test.go lists the
// commands. `-rewrite` writes the stories anew.
func TestStories(t *testing.T) {
	t.Parallel()
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			defer w.end() // also of a story that fails: nothing may be left in the bubble
			datadriven.RunTest(t, path, w.line)
		})
	})
}

// world is a worker with everything around it.
type world struct {
	t        testing.TB
	subjects events.Subjects
	broker   *memory.Broker
	redis    *redis
	gardener *garden
	ledger   *book
	room     *lobby
	blocks   *memory.Ranges
	live     *terms.Live
	networks networks
	policies policy.Holder
	kind     string

	worker    *worker.Worker // nil before it is started
	rebuilder *rebuild.Rebuilder
	labels    *reconcile.Labels
	extend    *ranges.Reconciler // nil without network ranges
	notes     *scribe            // nil where nothing is written beside the ledger
	configs   *ranges.ClusterConfigs
	purger    *retention.Purger
	auditor   *audit.Auditor

	ctx     context.Context
	cancel  context.CancelFunc
	running sync.WaitGroup

	over chan struct{} // closed at the end of the story

	mu     sync.Mutex
	told   []string          // what happened since the last line
	tried  []string          // retries since then, sorted at the end of the line
	writes []string          // writes of other components since then, sorted at the end of the line
	freed  []string          // bindings whose label an event removed since then
	hooks  map[string][]hook // by the call that they wait for
	gate   chan struct{}     // closed by the command "proceed"
}

// networks is the present network configuration.
type networks struct {
	current atomic.Pointer[network.Config]
}

func (n *networks) Config() *network.Config { return n.current.Load() }

func newWorld(t testing.TB) *world {
	t.Helper()
	decisions, err := config.Default().Decisions()
	if err != nil {
		t.Fatal(err)
	}
	broker, subjects := memorytest.Streams(t)
	w := &world{
		t: t, subjects: subjects, broker: broker, live: terms.NewLive(decisions), blocks: memory.NewRanges(),
		kind: "CredentialsBinding", hooks: map[string][]hook{}, gate: make(chan struct{}), over: make(chan struct{}),
	}
	w.ctx, w.cancel = context.WithCancel(context.Background())
	w.redis = &redis{Counters: memory.NewCounters(), w: w}
	w.gardener = &garden{Gardener: memory.NewGardener("garden-kyma", w.kind), w: w}
	w.ledger = &book{Ledger: storage.NewLedgerOn(broker, subjects, "/hap-worker"), w: w}
	w.room = &lobby{WaitingRoom: storage.NewWaitingRoomOn(broker, subjects), w: w}
	return w
}

// end stops all that runs.
func (w *world) end() {
	close(w.over)
	if w.worker != nil {
		w.worker.Stop()
	}
	w.cancel()
	w.running.Wait()
	w.broker.Close()
}

// proceed unblocks the calls that "hold" blocks.
func (w *world) proceed() {
	w.mu.Lock()
	defer w.mu.Unlock()
	close(w.gate)
	w.gate = make(chan struct{})
}

// tell notes what happened.
func (w *world) tell(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.told = append(w.told, fmt.Sprintf(format, args...))
}

// once adds text to the line, unless it is there already.
func (w *world) once(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	w.mu.Lock()
	defer w.mu.Unlock()
	if !slices.Contains(w.told, text) {
		w.told = append(w.told, text)
	}
}

// triesAgain adds a retry to the line, once. Retries are sorted and come first, since their order is random.
func (w *world) triesAgain(format string, args ...any) {
	w.among(&w.tried, fmt.Sprintf(format, args...))
}

// last adds a write of another component to the line, once. These are sorted and come last, since they race
// with the worker.
func (w *world) last(format string, args ...any) { w.among(&w.writes, fmt.Sprintf(format, args...)) }

func (w *world) among(lines *[]string, text string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !slices.Contains(*lines, text) {
		*lines = append(*lines, text)
	}
}

// sortLabels sorts consecutive label lines by binding, since a sweep writes several labels at a time. The
// order of the lines of one binding is kept.
func sortLabels(told []string) {
	isLabel := func(line string) bool { return strings.HasPrefix(line, "label: ") }
	binding := func(line string) string { name, _, _ := strings.Cut(line, " in "); return name }
	for begin := 0; begin < len(told); begin++ {
		end := begin
		for end < len(told) && isLabel(told[end]) {
			end++
		}
		slices.SortStableFunc(told[begin:end], func(x, y string) int { return cmp.Compare(binding(x), binding(y)) })
		begin = max(begin, end-1)
	}
}

// line runs a command, waits until all goroutines are idle, and returns what happened.
func (w *world) line(t *testing.T, d *datadriven.TestData) string {
	t.Helper()
	out, err := w.do(command{name: d.Cmd, args: d.CmdArgs, input: d.Input})
	synctest.Wait()
	time.Sleep(2 * time.Nanosecond) // virtual: long enough to serve the waiting room, too short for a retry
	synctest.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	sortLabels(w.told)
	lines := slices.Concat(slices.Sorted(slices.Values(w.tried)), w.told, slices.Sorted(slices.Values(w.writes)))
	w.told, w.tried, w.writes, w.freed = nil, nil, nil, nil
	if err != nil {
		d.Fatalf(t, "%v", err)
	}
	if out != "" {
		lines = append(lines, strings.TrimRight(out, "\n"))
	}
	if len(lines) == 0 {
		return "nothing"
	}
	return strings.Join(lines, "\n")
}
