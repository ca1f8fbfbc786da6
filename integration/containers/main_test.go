package containers_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode"

	"github.com/hap-worker/hap-worker/engine/seedtest"
	"github.com/hap-worker/hap-worker/events"
	"github.com/hap-worker/hap-worker/gardener"
	"github.com/hap-worker/hap-worker/integration/containers"
	"github.com/hap-worker/hap-worker/integration/faults"
	"github.com/hap-worker/hap-worker/integration/stack"
)

const (
	// buildLimit is the time limit for images and parts, including the first build of the Kubernetes API.
	buildLimit = 20 * time.Minute
	// settled is the time limit for settling. At a second fail-over soon after the first, a worker waits for 98 s
	// before it takes over (worker/rebuild), and then for NATS and its sweep.
	settled = 4 * time.Minute
	// limit is the time limit of a test, including settled.
	limit = 10 * time.Minute
)

// shared is the system of this test binary.
var shared struct {
	once   sync.Once
	system *containers.System
	err    error
}

// sharedSystem returns the parts that all tests share. Without a container engine, the test is skipped with a
// message; it fails if HAP_REQUIRE_ALL is set and HAP_WITHOUT_CONTAINERS is not.
func sharedSystem(t *testing.T) *containers.System {
	t.Helper()
	requireDocker(t)
	shared.once.Do(func() {
		ctx, cancel := context.WithTimeout(context.Background(), buildLimit)
		defer cancel()
		shared.system, shared.err = containers.Start(ctx, containers.Options{Gardener: os.Getenv("HAP_CONTAINERS_GARDENER"), Talk: os.Stderr})
	})
	if shared.err != nil {
		t.Fatal(shared.err)
	}
	return shared.system
}

func requireDocker(t *testing.T) {
	t.Helper()
	err := containers.Available(t.Context())
	switch {
	case err == nil:
	case os.Getenv("HAP_REQUIRE_ALL") != "" && os.Getenv("HAP_WITHOUT_CONTAINERS") == "":
		t.Fatalf("a container engine is required: %v", err)
	default:
		t.Skipf("not run: there is no container engine: %v", err)
	}
}

func TestMain(m *testing.M) {
	code := m.Run()
	if shared.system != nil {
		if err := shared.system.Stop(context.Background()); err != nil {
			fmt.Fprintln(os.Stderr, "stop the containers:", err)
			code = 1
		}
	}
	os.Exit(code)
}

// scene is a landscape under load.
type scene struct {
	*containers.Landscape

	t      *testing.T
	ctx    context.Context
	system *containers.System
	load   *faults.Load
	dir    string // for logs; kept with -artifacts
}

// waiting is how long a request of the load may wait for an account.
const waiting = 10 * time.Second

// spare is an account that the load does not use: the only one for plan aws in cf-eu11.
var spare = stack.Account{Name: "spare", HyperscalerType: "aws", Labels: map[string]string{"euAccess": "true"}}

// setting configures a scene.
type setting struct {
	accounts gardener.Resource                              // their kind. Defaults to gardener.CredentialsBindings.
	redis    func(*containers.System) containers.RedisPlace // Defaults to the system's single server.
}

// newScene starts a landscape under load, and returns after 30 answers. It is removed at the end of the test.
func newScene(t *testing.T, where setting) *scene {
	t.Helper()
	if where.redis == nil {
		where.redis = func(s *containers.System) containers.RedisPlace { return s.Redis.Place() }
	}
	system := sharedSystem(t)
	ctx, cancel := context.WithTimeoutCause(t.Context(), limit, fmt.Errorf("the test takes longer than %s", limit))
	t.Cleanup(cancel)
	dir := t.ArtifactDir() // before the clean-up that writes there is registered
	l, err := system.NewLandscape(ctx, containers.LandscapeOptions{
		Redis: where.redis(system), Config: faults.Config(waiting), Resource: where.accounts, Accounts: append(faults.Accounts(), spare),
	})
	if err != nil {
		t.Fatal(err)
	}
	s := &scene{Landscape: l, t: t, ctx: ctx, system: system, dir: dir}
	t.Cleanup(s.end)
	s.must(l.Replicated(ctx))
	seed := seedtest.Of(t)
	s.load, err = l.StartLoad(ctx, faults.LoadOptions{
		Seed: seed, Dir: dir, Every: 150 * time.Millisecond, Settle: settled, Log: t.Logf,
	})
	s.must(err)
	s.answers(30)
	return s
}

// end stops the load, writes the workers' logs, fails the test for a panic in them, and removes the landscape.
func (s *scene) end() {
	ctx := context.WithoutCancel(s.ctx)
	if s.load != nil {
		s.load.Close()
	}
	for n, w := range s.Workers {
		log, err := w.Log(ctx)
		if err == nil {
			err = os.WriteFile(filepath.Join(s.dir, fmt.Sprintf("worker-%d.log", n+1)), log, 0o600)
		}
		if err != nil {
			s.t.Error(err)
		}
		for _, sign := range []string{"panic:", "fatal error:"} {
			if at := bytes.Index(log, []byte(sign)); at >= 0 {
				s.t.Errorf("worker %d: %s", n+1, log[at:min(len(log), at+2000)])
			}
		}
	}
	if err := s.Stop(ctx); err != nil {
		s.t.Error(err)
	}
}

func (s *scene) must(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

// answers waits for n more final replies to the load.
func (s *scene) answers(n int) {
	s.t.Helper()
	want := s.load.Answered() + n
	s.eventually(func() error {
		if got := s.load.Answered(); got < want {
			return fmt.Errorf("%d final replies, want %d", got, want)
		}
		return nil
	})
}

// eventually repeats check until it returns no error. At the time limit of the test, it fails the test.
func (s *scene) eventually(check func() error) {
	s.t.Helper()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		err := check()
		if err == nil {
			return
		}
		select {
		case <-s.ctx.Done():
			s.t.Fatalf("%v: %v", context.Cause(s.ctx), err)
		case <-tick.C:
		}
	}
}

// request returns the id of the request for a runtime.
func request(runtime string) string { return "ask-" + runtime }

// provision asks for a cluster on the spare account and waits for the final reply.
func (s *scene) provision(runtime, tenant string) (events.Reply, error) {
	e := events.Event{Type: events.TypeProvision, ID: request(runtime), RuntimeID: runtime, Provision: &events.Provision{
		RuntimeID: runtime, GlobalAccountID: tenant, Plan: "aws", PlatformRegion: "cf-eu11", HyperscalerRegion: "eu-central-1",
		Deadline: time.Now().Add(limit),
	}}
	s.load.Note(e)
	return s.Client.Provision(s.ctx, e.ID, *e.Provision)
}

// deprovision releases a runtime and waits for the final reply.
func (s *scene) deprovision(runtime, tenant string) (events.Reply, error) {
	e := events.Event{Type: events.TypeDeprovision, ID: "bye-" + runtime, RuntimeID: runtime, Deprovision: &events.Deprovision{
		RuntimeID: runtime, GlobalAccountID: tenant,
	}}
	s.load.Note(e)
	return s.Client.Deprovision(s.ctx, e.ID, *e.Deprovision)
}

// holds waits until the workers are ready and everything is settled. It fails the test for every violation,
// and for every account that is not free after all runtimes were released.
func (s *scene) holds() {
	s.t.Helper()
	s.must(s.AwaitReady(s.ctx))
	report, err := s.load.Conclude()
	s.must(err)
	s.t.Log(report)
	for _, violation := range report.Violations {
		s.t.Error(violation)
	}
	if len(report.Violations) > 0 {
		s.told(strings.Join(report.Violations, " "))
	}
}

// told prints the last 60 log lines of each worker that are warnings or errors, or have a name of the violations: on
// another machine, the logs are lost with the test.
func (s *scene) told(violations string) {
	named := strings.FieldsFunc(violations, func(r rune) bool {
		return !strings.ContainsRune("-_", r) && !unicode.IsLetter(r) && !unicode.IsDigit(r)
	})
	named = slices.DeleteFunc(named, func(word string) bool { return !strings.ContainsAny(word, "0123456789") || len(word) < 4 })
	for n, w := range s.Workers {
		log, err := w.Log(s.ctx)
		if err != nil {
			s.t.Error(err)
			continue
		}
		var of []string
		for line := range strings.Lines(string(log)) {
			if strings.Contains(line, `"level":"WARN"`) || strings.Contains(line, `"level":"ERROR"`) ||
				slices.ContainsFunc(named, func(name string) bool { return strings.Contains(line, name) }) {
				of = append(of, line)
			}
		}
		s.t.Logf("worker %d:\n%s", n+1, strings.Join(of[max(0, len(of)-60):], ""))
	}
}
