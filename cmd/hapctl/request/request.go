// Package request has the commands of hapctl that publish events and wait for the replies: provision,
// deprovision, release, resolve.
package request

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

	"github.com/hap-worker/hap-worker/cmd/hapctl/cli"
	"github.com/hap-worker/hap-worker/cmd/hapctl/view"
	"github.com/hap-worker/hap-worker/engine"
	"github.com/hap-worker/hap-worker/events"
	"github.com/hap-worker/hap-worker/events/requests"
	"github.com/hap-worker/hap-worker/worker/config"
)

// AnswerWithin is how long a request waits for its answer unless told otherwise.
const AnswerWithin = time.Minute

// Requester publishes requests of one type and waits for their answers.
type Requester struct {
	S        *cli.Shell
	Client   *requests.Client
	Ledger   *events.Ledger
	Subjects events.Subjects
	Timeout  time.Duration
	noWait   bool
	doubts   doubts // nil for none
	// Again tells the user how to ask for the answer to a request later.
	Again func(id string) string
}

// OpenRequester connects, and makes sure that a worker could answer: without the
// streams a request would only be tried until its time is over.
func OpenRequester(ctx context.Context, s *cli.Shell, cfg *config.Config) (r *Requester, closer func(), err error) {
	nc, err := cli.OpenNATS(ctx, s, cfg.NATS)
	if err != nil {
		return nil, nil, err
	}
	r = &Requester{S: s}
	if r.Subjects, err = events.NewSubjects(cfg.NATS.Prefix); err == nil {
		r.Ledger, err = cli.OpenLedger(ctx, s, cfg, nc, r.Subjects)
	}
	if err == nil {
		r.Client, err = requests.NewClient(nc, requests.ClientOptions{
			Source: cli.Source, Prefix: cfg.NATS.Prefix, LookAfter: 300 * time.Millisecond,
		})
	}
	if err != nil {
		return nil, nil, err
	}
	return r, r.Client.Close, nil
}

// one asks for e and returns the reply, or what is known of it so far, to be shown;
// the error beside it is the exit code's. given says that the id is not a new one.
func (r *Requester) one(ctx context.Context, e events.Event, given bool) (cli.View, error) {
	ctx, cancel := context.WithTimeout(ctx, r.Timeout)
	defer cancel()
	pending := view.PendingOf(e, r.Subjects)
	if reply, answered := r.answered(ctx, given, pending.Subject); answered {
		if r.noWait && fits(e, reply) {
			return pending, nil
		}
		return Final(e, reply)
	}
	if r.noWait {
		if err := r.Client.Publish(ctx, e); err != nil {
			return r.Unanswered(pending, err)
		}
		return pending, nil
	}
	reply, err := r.Client.Ask(ctx, e, requests.OnWaiting(func(reply events.Reply) { r.S.Say("%s", WaitingText(reply)) }))
	if rejected := (*requests.Rejected)(nil); err == nil || errors.As(err, &rejected) {
		return Final(e, reply)
	}
	pending.Waiting = reply.Waiting
	return r.Unanswered(pending, err)
}

// answered returns the final reply that the ledger has under an id that was given:
// the first one stands, whatever is published under the id later. Where it cannot
// be read, the client finds it or waits for it.
func (r *Requester) answered(ctx context.Context, given bool, subject string) (events.Reply, bool) {
	if !given {
		return events.Reply{}, false
	}
	stored, found, err := r.Ledger.Last(ctx, subject)
	return stored.Reply, err == nil && found && stored.Reply.Final()
}

// Final is a final reply under the id of e, with the error that it stands for.
func Final(e events.Event, reply events.Reply) (cli.View, error) {
	switch {
	case !fits(e, reply):
		return view.Reply{Reply: reply}, &cli.ExitError{Code: cli.ExitConflict, Err: fmt.Errorf(
			"request id %s was used before, for what is answered as %s; send the %s under an id of its own", e.ID, reply.Status, e.Type)}
	case reply.Status == events.StatusRejected:
		return view.Reply{Reply: reply}, &requests.Rejected{Reply: reply}
	default:
		return view.Reply{Reply: reply}, nil
	}
}

// fits reports whether a final reply can be the one to an event of that type.
func fits(e events.Event, reply events.Reply) bool {
	return reply.Status == events.StatusRejected || reply.Status == e.Type.Info().Answer
}

// Unanswered is a request whose answer is not there yet, or that was never
// published because it could not be.
func (r *Requester) Unanswered(p view.Pending, err error) (cli.View, error) {
	if engine.CodeOf(err) == engine.CodeInvalidEvent {
		return nil, err
	}
	err = fmt.Errorf("%w; pick the answer up with: %s", flat{err}, r.Again(p.RequestID))
	p.Error = &cli.LineError{Code: engine.CodeOf(err), Message: err.Error()}
	return p, err
}

// flat is an error whose text is one line.
type flat struct{ error }

func (f flat) Error() string { return cli.OneLineOf(f.error) }

func (f flat) Unwrap() error { return f.error }

// WaitingText says in one line that a request waits: for what, at which place and until when.
func WaitingText(r events.Reply) string {
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
	flags.DurationVar(&f.timeout, "timeout", AnswerWithin, "how long to wait for the answer to each request")
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
		return false, cli.Usagef("--timeout is %s, must be positive", f.timeout)
	}
	if f.stdin && f.file != "" && f.file != "-" {
		return false, cli.Usagef("--stdin and -f %s exclude each other", f.file)
	}
	lines = f.stdin || f.file != ""
	cmd.Flags().Visit(func(flag *pflag.Flag) {
		if lines && err == nil && !common[flag.Name] && cmd.InheritedFlags().Lookup(flag.Name) == nil {
			err = cli.Usagef("-f and --%s exclude each other; write it into the lines", flag.Name)
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
		return false, cli.Usagef("%s needs %s, or -f FILE", cmd.CommandPath(), strings.Join(missing, " and "))
	}
	if f.id != "" && !engine.ValidID(f.id) {
		return false, cli.Usagef("--id %q is no id: 1 to %d letters, digits, - and _, a letter or digit at both ends", f.id, engine.MaxID)
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
	e.Source = cli.Source
	if _, err := events.EncodeEvent(e); err != nil {
		return cli.Usagef("%s", flagNames.Replace(err.Error()))
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
			words = append(words, "--"+flag.Name, cli.QuoteWord(value))
		}
	})
	return strings.Join(append(words, "--id", id), " ")
}

// requestCommand makes the command of one type of request. event returns the event
// that the flags describe; lines are read as the data of the same type, and nothing is
// asked about them. look, if not nil, finds what is worth asking.
func requestCommand(s *cli.Shell, cmd *cobra.Command, t events.Type, required []string, look func(*config.Config) doubts, event func() events.Event) *cobra.Command {
	f := requestFlagSet{doubts: look}
	f.register(cmd.Flags())
	cmd.Args = cli.Arguments(cobra.NoArgs)
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
		r.Again = func(id string) string { return again(cmd, id) }
		if err := r.settleDoubt(cmd.Context(), e, f.id != "", f.yes); err != nil {
			return err
		}
		if f.id == "" && !f.noWait {
			r.S.Say("request %s", e.ID)
		}
		return r.runOne(cmd.Context(), e, f.id != "")
	}
	return cmd
}

// runLines asks for what a file or standard input has.
func (f *requestFlagSet) runLines(cmd *cobra.Command, s *cli.Shell, t events.Type) error {
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
	r.Again = func(id string) string { return "the same line with the id " + id }
	return r.runFile(cmd.Context(), in, t)
}

// connect opens what the requests need. Several of them may talk at once.
func (f *requestFlagSet) connect(ctx context.Context, s *cli.Shell) (*Requester, func(), error) {
	cfg, err := s.Connections.Settings()
	if err != nil {
		return nil, nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, f.timeout)
	defer cancel()
	talk := *s
	talk.Stderr = cli.Stream{To: &cli.Together{W: s.Stderr.To}}
	r, closer, err := OpenRequester(ctx, &talk, cfg)
	if err != nil {
		return nil, nil, err
	}
	r.Timeout, r.noWait = f.timeout, f.noWait
	if f.doubts != nil {
		r.doubts = f.doubts(cfg)
	}
	return r, closer, nil
}

func (r *Requester) runOne(ctx context.Context, e events.Event, given bool) error {
	v, err := r.one(ctx, e, given)
	if v != nil {
		if printing := r.S.Print(v); printing != nil {
			return printing
		}
	}
	return err
}

// open returns what the lines are read from.
func (f *requestFlagSet) open(s *cli.Shell) (in io.Reader, closer func(), err error) {
	if f.file == "" || f.file == "-" {
		return s.Stdin, func() {}, nil
	}
	file, err := os.Open(f.file)
	if err != nil {
		return nil, nil, fmt.Errorf("read requests: %w", err)
	}
	return file, func() { _ = file.Close() }, nil
}
