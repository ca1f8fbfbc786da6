package operator

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/hap-worker/hap-worker/engine"
	"github.com/hap-worker/hap-worker/events"
	"github.com/hap-worker/hap-worker/events/requests"
	"github.com/hap-worker/hap-worker/worker/config"
)

// source is the CloudEvents source of what hapctl publishes.
const source = "/hapctl"

// answerWithin is how long a request waits for its answer unless told otherwise.
const answerWithin = time.Minute

// requester publishes requests of one type and waits for their answers.
type requester struct {
	s        *shell
	client   *requests.Client
	ledger   *events.Ledger
	subjects events.Subjects
	timeout  time.Duration
	noWait   bool
	doubts   doubts // nil for none
	// again tells the user how to ask for the answer to a request later.
	again func(id string) string
}

// openRequester connects, and makes sure that a worker could answer: without the
// streams a request would only be tried until its time is over.
func openRequester(ctx context.Context, s *shell, cfg *config.Config) (r *requester, closer func(), err error) {
	nc, err := openNATS(ctx, s, cfg.NATS)
	if err != nil {
		return nil, nil, err
	}
	r = &requester{s: s}
	if r.subjects, err = events.NewSubjects(cfg.NATS.Prefix); err == nil {
		r.ledger, err = openLedger(ctx, s, cfg, nc, r.subjects)
	}
	if err == nil {
		r.client, err = requests.NewClient(nc, requests.ClientOptions{
			Source: source, Prefix: cfg.NATS.Prefix, LookAfter: 300 * time.Millisecond,
		})
	}
	if err != nil {
		return nil, nil, err
	}
	return r, r.client.Close, nil
}

// one asks for e and returns the reply, or what is known of it so far, to be shown;
// the error beside it is the exit code's. given says that the id is not a new one.
func (r *requester) one(ctx context.Context, e events.Event, given bool) (view, error) {
	ctx, cancel := context.WithTimeout(ctx, r.timeout)
	defer cancel()
	pending := pendingOf(e, r.subjects)
	if reply, answered := r.answered(ctx, given, pending.Subject); answered {
		if r.noWait && fits(e, reply) {
			return pending, nil
		}
		return final(e, reply)
	}
	if r.noWait {
		if err := r.client.Publish(ctx, e); err != nil {
			return r.unanswered(pending, err)
		}
		return pending, nil
	}
	reply, err := r.client.Ask(ctx, e, requests.OnWaiting(func(reply events.Reply) { r.s.say("%s", waitingText(reply)) }))
	if rejected := (*requests.Rejected)(nil); err == nil || errors.As(err, &rejected) {
		return final(e, reply)
	}
	pending.Waiting = reply.Waiting
	return r.unanswered(pending, err)
}

// answered returns the final reply that the ledger has under an id that was given:
// the first one stands, whatever is published under the id later. Where it cannot
// be read, the client finds it or waits for it.
func (r *requester) answered(ctx context.Context, given bool, subject string) (events.Reply, bool) {
	if !given {
		return events.Reply{}, false
	}
	stored, found, err := r.ledger.Last(ctx, subject)
	return stored.Reply, err == nil && found && stored.Reply.Final()
}

// final is a final reply under the id of e, with the error that it stands for.
func final(e events.Event, reply events.Reply) (view, error) {
	switch {
	case !fits(e, reply):
		return replyView{reply}, &exitError{code: exitConflict, err: fmt.Errorf(
			"request id %s was used before, for what is answered as %s; send the %s under an id of its own", e.ID, reply.Status, e.Type)}
	case reply.Status == events.StatusRejected:
		return replyView{reply}, &requests.Rejected{Reply: reply}
	default:
		return replyView{reply}, nil
	}
}

// fits reports whether a final reply can be the one to an event of that type.
func fits(e events.Event, reply events.Reply) bool {
	return reply.Status == events.StatusRejected || reply.Status == e.Type.Info().Answer
}

// unanswered is a request whose answer is not there yet, or that was never
// published because it could not be.
func (r *requester) unanswered(p pendingView, err error) (view, error) {
	if engine.CodeOf(err) == engine.CodeInvalidEvent {
		return nil, err
	}
	err = fmt.Errorf("%w; pick the answer up with: %s", flat{err}, r.again(p.RequestID))
	p.Error = &lineError{Code: engine.CodeOf(err), Message: err.Error()}
	return p, err
}

// flat is an error whose text is one line.
type flat struct{ error }

func (f flat) Error() string { return oneLineOf(f.error) }
func (f flat) Unwrap() error { return f.error }

func waitingText(r events.Reply) string {
	var b strings.Builder
	fmt.Fprintf(&b, "request %s waits", r.RequestID)
	if w := r.Waiting; w != nil {
		fmt.Fprintf(&b, " (%s)", w.Reason)
		if w.Position > 0 {
			fmt.Fprintf(&b, ", place %d", w.Position)
		}
		if !w.Deadline.IsZero() {
			fmt.Fprintf(&b, ", until %s", w.Deadline.Format(time.RFC3339))
		}
	}
	return b.String()
}

// requestFlagSet are the flags that every request has.
type requestFlagSet struct {
	id      string
	file    string
	stdin   bool
	noWait  bool
	yes     bool
	timeout time.Duration
	doubts  func(*config.Config) doubts // nil for none
}

func (f *requestFlagSet) register(flags *pflag.FlagSet) {
	flags.StringVar(&f.id, "id", "", "request `id`; repeating an id returns the same answer (default: a new id)")
	flags.StringVarP(&f.file, "file", "f", "", "read requests from a `file`, one JSON object per line, - for standard input")
	flags.BoolVar(&f.stdin, "stdin", false, "read requests from standard input; the same as -f -")
	flags.BoolVar(&f.noWait, "no-wait", false, "publish, but do not wait for the answer")
	flags.DurationVar(&f.timeout, "timeout", answerWithin, "how long to wait for the answer to each request")
	if f.doubts != nil {
		flags.BoolVar(&f.yes, "yes", false, "skip the check before publishing, and do not ask")
	}
}

// common are the flags that go with -f too.
var common = map[string]bool{"file": true, "stdin": true, "no-wait": true, "timeout": true, "yes": true}

// check returns an error for wrong usage. lines reports whether
// requests are read as lines, from a file or standard input.
func (f *requestFlagSet) check(cmd *cobra.Command, required []string) (lines bool, err error) {
	if f.timeout <= 0 {
		return false, usagef("--timeout is %s, must be positive", f.timeout)
	}
	if f.stdin && f.file != "" && f.file != "-" {
		return false, usagef("--stdin and -f %s exclude each other", f.file)
	}
	lines = f.stdin || f.file != ""
	cmd.Flags().Visit(func(flag *pflag.Flag) {
		if lines && err == nil && !common[flag.Name] && cmd.InheritedFlags().Lookup(flag.Name) == nil {
			err = usagef("-f and --%s exclude each other; write it into the lines", flag.Name)
		}
	})
	if lines || err != nil {
		return lines, err
	}
	var missing []string
	for _, name := range required {
		if cmd.Flag(name).Value.String() == "" {
			missing = append(missing, "--"+name)
		}
	}
	if len(missing) > 0 {
		return false, usagef("%s needs %s, or -f FILE", cmd.CommandPath(), strings.Join(missing, " and "))
	}
	if f.id != "" && !engine.ValidID(f.id) {
		return false, usagef("--id %q is no id: 1 to %d letters, digits, - and _, a letter or digit at both ends", f.id, engine.MaxID)
	}
	return false, nil
}

// flagNames are the fields of events as flags.
var flagNames = strings.NewReplacer(
	"data.runtimeID", "--runtime", "data.globalAccountID", "--global-account", "data.plan", "--plan",
	"data.platformRegion", "--platform-region", "data.hyperscalerRegion", "--hyperscaler-region",
	"data.provider", "--provider", "data.shootName", "--shoot", "data.binding", "--binding",
	"data.interface.path", "--interface", "data.generation", "--generation",
)

// checkEvent finds what would be refused anyway before anything is connected.
func checkEvent(e events.Event) error {
	e.Source = source
	if _, err := events.EncodeEvent(e); err != nil {
		return usagef("%s", flagNames.Replace(err.Error()))
	}
	return nil
}

// again is the command line that asks for the same request under id.
func again(cmd *cobra.Command, id string) string {
	words := []string{cmd.CommandPath()}
	cmd.Flags().Visit(func(flag *pflag.Flag) {
		if common[flag.Name] || flag.Name == "id" || cmd.InheritedFlags().Lookup(flag.Name) != nil {
			return
		}
		values := []string{flag.Value.String()}
		if several, is := flag.Value.(pflag.SliceValue); is {
			values = several.GetSlice()
		}
		for _, value := range values {
			words = append(words, "--"+flag.Name, quoteWord(value))
		}
	})
	return strings.Join(append(words, "--id", id), " ")
}

// quoteWord writes a value as a shell reads it.
func quoteWord(word string) string {
	plain := func(c rune) bool {
		return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.ContainsRune("-_./:@", c)
	}
	if word != "" && strings.IndexFunc(word, func(c rune) bool { return !plain(c) }) < 0 {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}

// requestCommand makes the command of one type of request. event returns the event
// that the flags describe; lines are read as the data of the same type, and nothing is
// asked about them. look, if not nil, finds what is worth asking.
func requestCommand(s *shell, cmd *cobra.Command, t events.Type, required []string, look func(*config.Config) doubts, event func() events.Event) *cobra.Command {
	f := requestFlagSet{doubts: look}
	f.register(cmd.Flags())
	cmd.Args = arguments(cobra.NoArgs)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		lines, err := f.check(cmd, required)
		if err != nil {
			return err
		}
		if lines {
			return f.runLines(cmd, s, t)
		}
		e := event()
		e.Type = t
		e.ID = cmp.Or(f.id, uuid.NewString())
		if err := checkEvent(e); err != nil {
			return err
		}
		r, closer, err := f.connect(cmd.Context(), s)
		if err != nil {
			return err
		}
		defer closer()
		r.again = func(id string) string { return again(cmd, id) }
		if err := r.settleDoubt(cmd.Context(), e, f.id != "", f.yes); err != nil {
			return err
		}
		if f.id == "" && !f.noWait {
			r.s.say("request %s", e.ID)
		}
		return r.runOne(cmd.Context(), e, f.id != "")
	}
	return cmd
}

// runLines asks for what a file or standard input has.
func (f *requestFlagSet) runLines(cmd *cobra.Command, s *shell, t events.Type) error {
	in, closeFile, err := f.open(s)
	if err != nil {
		return err
	}
	defer closeFile()
	r, closer, err := f.connect(cmd.Context(), s)
	if err != nil {
		return err
	}
	defer closer()
	r.again = func(id string) string { return "the same line with the id " + id }
	return r.runFile(cmd.Context(), in, t)
}

// connect opens what the requests need. Several of them may talk at once.
func (f *requestFlagSet) connect(ctx context.Context, s *shell) (*requester, func(), error) {
	cfg, err := s.connections.settings()
	if err != nil {
		return nil, nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, f.timeout)
	defer cancel()
	talk := *s
	talk.stderr = stream{&together{w: s.stderr.to}}
	r, closer, err := openRequester(ctx, &talk, cfg)
	if err != nil {
		return nil, nil, err
	}
	r.timeout, r.noWait = f.timeout, f.noWait
	if f.doubts != nil {
		r.doubts = f.doubts(cfg)
	}
	return r, closer, nil
}

func (r *requester) runOne(ctx context.Context, e events.Event, given bool) error {
	v, err := r.one(ctx, e, given)
	if v != nil {
		if printing := r.s.print(v); printing != nil {
			return printing
		}
	}
	return err
}

// open returns what the lines are read from.
func (f *requestFlagSet) open(s *shell) (in io.Reader, closer func(), err error) {
	if f.file == "" || f.file == "-" {
		return s.stdin, func() {}, nil
	}
	file, err := os.Open(f.file)
	if err != nil {
		return nil, nil, fmt.Errorf("read requests: %w", err)
	}
	return file, func() { _ = file.Close() }, nil
}
