package integration_test

import (
	"bytes"
	"context"
	"fmt"
	"html"
	"net/http"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/rogpeppe/go-internal/testscript"
	"github.com/rogpeppe/go-internal/txtar"

	"github.com/hap-worker/hap-worker/cmd/daemon"
	"github.com/hap-worker/hap-worker/cmd/hapctl/clitest"
	"github.com/hap-worker/hap-worker/events"
	"github.com/hap-worker/hap-worker/integration/faulty"
	"github.com/hap-worker/hap-worker/worker/observe"
)

// runbookConfig is the configuration of a scene without a file worker.yaml.
const runbookConfig = `
hap:
  rule: [aws, azure, gcp, trial -> S, "sap-converged-cloud -> S", azure_lite, preview, free]
  multiHyperscalerAccount: {allowedGlobalAccounts: ["*"], limits: {default: 2}}
`

// scene is the state of one alert of deploy/prometheus.
type scene struct {
	*networked
	gardener *faulty.KubeAPI // the worker's way to Gardener
	env      []string        // of the worker
	worker   *inProcess
	faults   atomic.Pointer[func()] // called when a worker begins with an event
}

// TestRunbook makes the state of each alert and shows what answers it: the output of one command, and text of
// one page. docs/runbook.md shows the same. A scene has three accounts of aws, one of azure and one of gcp; its
// file worker.yaml replaces runbookConfig, with IPAM for the name of the IPAMConfig. Beside the commands of
// runHapctl a scene has:
//
//	begin                     starts the worker and waits until it is ready
//	end                       stops the worker
//	prints CODE COMMAND ARGS  runs a command, compares its exit code, and leaves all that it prints in stdout
//	worker CODE ARGS…         does so with hap-worker, which asks the worker of this scene
//	logs TEXT                 waits for lines of the worker's log with the text, and leaves the first in stdout
//	shows PATH TEXT           waits until a page of the worker shows the text
//	gardener STATUS [DELAY]   has Gardener answer writes with the status, 0 for its own, after a delay; down: not at all
//	conflict PREFIX           has the next claim of such a binding meet another writer
//	label BINDING KEY VALUE   writes a label by hand
//	redis ARGS…               sends a command to Redis
//	slow DELAY                delays what the worker sends to Redis; before begin
//	behind DURATION           has the worker use another Redis, whose clock is behind; before begin
//	pause                     pauses the workers' consumer
//	fill STREAM               lowers the limit of a stream to the messages that it has
//	publish SUBJECT FILE      publishes a file as it is
//	hang, panics              has the worker hang, or panic, with each event that it begins
//	ranges FILE               writes the IPAMConfig
//	edit OLD NEW              changes the worker's configuration
func TestRunbook(t *testing.T) {
	t.Parallel()
	scripts, err := filepath.Glob("testdata/runbook/*.txtar")
	if err != nil || len(scripts) == 0 {
		t.Fatalf("%d scenes, %v", len(scripts), err)
	}
	bin := buildHapctl(t)
	for _, script := range scripts {
		t.Run(strings.TrimSuffix(filepath.Base(script), ".txtar"), func(t *testing.T) {
			t.Parallel()
			s := newScene(t, script)
			runScripts(t, s.stack, bin, testscript.Params{Files: []string{script}, Cmds: s.commands()})
		})
	}
}

func newScene(t *testing.T, script string) *scene {
	t.Helper()
	archive, err := txtar.ParseFile(script)
	if err != nil {
		t.Fatal(err)
	}
	config := runbookConfig
	for _, file := range archive.Files {
		if file.Name == "worker.yaml" {
			config = string(file.Data)
		}
	}
	s := &scene{networked: &networked{name: fmt.Sprintf("ipam-%d", ipams.Add(1))}}
	all := append(append(accounts("aws", 3), accounts("azure", 1)...), accounts("gcp", 1)...)
	s.landscape = newLandscape(t, strings.ReplaceAll(config, "IPAM", s.name), all)
	s.gardener, s.env = s.faultyAPI()
	return s
}

func (s *scene) commands() map[string]func(*testscript.TestScript, bool, []string) {
	return map[string]func(*testscript.TestScript, bool, []string){
		"begin": func(*testscript.TestScript, bool, []string) {
			s.worker = s.work(daemon.Options{Env: s.env, OnStep: s.step})
		},
		"end":    func(ts *testscript.TestScript, _ bool, _ []string) { ts.Check(s.worker.end()) },
		"prints": s.prints,
		"worker": s.run,
		"logs":   s.logs,
		"shows":  s.shows,
		"gardener": func(ts *testscript.TestScript, _ bool, args []string) {
			if args[0] == "down" {
				s.gardener.Down()
				return
			}
			status, err := strconv.Atoi(args[0])
			ts.Check(err)
			var delay time.Duration
			if len(args) > 1 {
				delay, err = time.ParseDuration(args[1])
				ts.Check(err)
			}
			s.gardener.Choose(func(r *http.Request) faulty.Fault {
				if r.Method != http.MethodPatch {
					return faulty.Fault{}
				}
				return faulty.Fault{Status: status, Delay: delay}
			})
		},
		"conflict": func(_ *testscript.TestScript, _ bool, args []string) {
			refuseClaim(s.gardener, args[0], func(string) {})
		},
		"label": func(ts *testscript.TestScript, _ bool, args []string) {
			ts.Check(label(s.stack, args[0], args[1], args[2]))
		},
		"redis":  s.redis,
		"slow":   s.slow,
		"behind": s.behind,
		"pause": func(ts *testscript.TestScript, _ bool, _ []string) {
			_, err := s.js.PauseConsumer(s.ctx, events.StreamEvents, events.ConsumerWorker, time.Now().Add(time.Hour))
			ts.Check(err)
		},
		"fill": s.fill,
		"publish": func(ts *testscript.TestScript, _ bool, args []string) {
			_, err := s.js.Publish(s.ctx, args[0], []byte(ts.ReadFile(args[1])))
			ts.Check(err)
		},
		"hang": func(*testscript.TestScript, bool, []string) {
			held := make(chan struct{})
			s.t.Cleanup(func() { close(held) })
			s.begins(func() { <-held })
		},
		"panics": func(*testscript.TestScript, bool, []string) {
			s.begins(func() { panic("assignment to entry in nil map") })
		},
		"ranges": func(ts *testscript.TestScript, _ bool, args []string) { s.configure(ts.ReadFile(args[0])) },
		"edit":   func(_ *testscript.TestScript, _ bool, args []string) { s.edit(args...) },
	}
}

// begins sets what happens when the worker begins with an event.
func (s *scene) begins(what func()) { s.faults.Store(&what) }

func (s *scene) step(step observe.Step) {
	if fault := s.faults.Load(); fault != nil && step == observe.StepReceived {
		(*fault)()
	}
}

// prints runs a command of hapctl.
func (s *scene) prints(ts *testscript.TestScript, negated bool, args []string) {
	clitest.Exits(ts, negated, args)
	s.tell(ts, ts.ReadFile("stdout")+ts.ReadFile("stderr"))
}

// run is the command worker.
func (s *scene) run(ts *testscript.TestScript, _ bool, args []string) {
	var out bytes.Buffer
	words := args[1:]
	if words[0] == "healthcheck" {
		words = append(words, "--url", s.worker.url+"/readyz")
	}
	s.soon(ts, func() error {
		out.Reset()
		if code := daemon.Main(s.ctx, words, &out, &out); strconv.Itoa(code) != args[0] {
			return fmt.Errorf("exit code %d: %s", code, out.String())
		}
		return nil
	})
	s.tell(ts, out.String())
}

// tell leaves the text in stdout, with the same addresses, times and numbers in each run.
func (s *scene) tell(ts *testscript.TestScript, text string) {
	at := strings.NewReplacer(
		s.worker.url, "http://127.0.0.1:8080", s.stack.Redis.URL(), "redis://127.0.0.1:6379", s.stack.NATS.URL(), "nats://127.0.0.1:4222",
		s.stack.Config, "hap-worker.yaml", s.stack.Target.Namespace, "garden-kyma", s.name, "ipam")
	fmt.Fprint(ts.Stdout(), plain(at.Replace(text)))
}

// unlike matches what differs between two runs, beside unsteady.
var unlike = []struct {
	found *regexp.Regexp
	text  string
}{
	{regexp.MustCompile(`"(seconds|duration|after|ahead)":-?[\d.e-]+`), `"$1":<n>`},
	{regexp.MustCompile(`"(trace_id|span_id)":"[0-9a-f]+"`), `"$1":"<id>"`},
	{regexp.MustCompile(`for another \d+m\d+s`), "for another <d>"},
	{regexp.MustCompile(`with sequence \d+`), "with sequence <n>"},
	{regexp.MustCompile(`goroutine \d+[^"]*`), "goroutine <n>"},
}

func plain(text string) string {
	text = steady(text)
	for _, u := range unlike {
		text = u.found.ReplaceAllString(text, u.text)
	}
	return text
}

// soon asks until there is no error, for a minute.
func (s *scene) soon(ts *testscript.TestScript, ask func() error) {
	ctx, cancel := context.WithTimeout(s.ctx, time.Minute)
	defer cancel()
	ts.Check(until(ctx, ask))
}

func (s *scene) logs(ts *testscript.TestScript, _ bool, args []string) {
	s.soon(ts, func() error {
		for line := range strings.Lines(s.worker.log.String()) {
			if strings.Contains(line, args[0]) {
				s.tell(ts, line)
				return nil
			}
		}
		return fmt.Errorf("no line of the log has %q", args[0])
	})
}

func (s *scene) shows(ts *testscript.TestScript, _ bool, args []string) {
	s.soon(ts, func() error {
		_, page, err := fetch(s.worker.url + args[0])
		if err == nil && !strings.Contains(textOf(page), args[1]) {
			err = fmt.Errorf("%s does not show %q: %s", args[0], args[1], textOf(page))
		}
		return err
	})
}

var (
	inline = regexp.MustCompile(`</?(a|b|code|em|span|strong|time|wbr)\b[^>]*>`)
	tags   = regexp.MustCompile(`<[^>]*>`)
)

// textOf returns the text that a page shows, on one line.
func textOf(page string) string {
	_, body, _ := strings.Cut(page, "<body>")
	body = tags.ReplaceAllString(inline.ReplaceAllString(body, ""), " ")
	return strings.Join(strings.Fields(html.UnescapeString(body)), " ")
}

func (s *scene) redis(ts *testscript.TestScript, _ bool, args []string) {
	words := make([]any, len(args))
	for i, arg := range args {
		words[i] = arg
	}
	ts.Check(s.byHand().Do(s.ctx, words...).Err())
}

func (s *scene) slow(ts *testscript.TestScript, _ bool, args []string) {
	delay, err := time.ParseDuration(args[0])
	ts.Check(err)
	proxy, err := faulty.NewRedis(s.stack.Redis.Address())
	ts.Check(err)
	s.t.Cleanup(proxy.Close)
	proxy.Choose(func() faulty.Cut {
		<-time.After(delay)
		return faulty.Pass
	})
	s.env = append(s.env, "HAP_REDIS_URL="+proxy.URL())
}

func (s *scene) behind(ts *testscript.TestScript, _ bool, args []string) {
	late, err := time.ParseDuration(args[0])
	ts.Check(err)
	server := miniredis.RunT(s.t)
	server.SetTime(time.Now().Add(-late))
	s.env = append(s.env, "HAP_REDIS_URL=redis://"+server.Addr())
}

func (s *scene) fill(ts *testscript.TestScript, _ bool, args []string) {
	stream, err := s.js.Stream(s.ctx, args[0])
	ts.Check(err)
	config := stream.CachedInfo().Config
	config.MaxMsgs, config.Discard = max(1, int64(stream.CachedInfo().State.Msgs)), jetstream.DiscardNew
	_, err = s.js.UpdateStream(s.ctx, config)
	ts.Check(err)
}
