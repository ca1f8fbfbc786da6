// Package request implements the commands of hapctl that publish events and wait for the replies: provision,
// deprovision, release and resolve.
package request

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/hap-worker/hap-worker/cmd/connect"
	"github.com/hap-worker/hap-worker/cmd/hapctl/cli"
	"github.com/hap-worker/hap-worker/cmd/hapctl/view"
	"github.com/hap-worker/hap-worker/engine"
	"github.com/hap-worker/hap-worker/events"
	"github.com/hap-worker/hap-worker/events/requests"
	"github.com/hap-worker/hap-worker/ledger/storage"
	"github.com/hap-worker/hap-worker/worker/config"
)

// AnswerWithin is how long hapctl waits for an answer by default.
const AnswerWithin = time.Minute

// Requester publishes requests and waits for their answers.
type Requester struct {
	Shell    *cli.Shell
	Client   *requests.Client
	Ledger   *storage.Ledger
	Subjects events.Subjects
	Timeout  time.Duration
	noWait   bool
	doubts   doubts // nil for none
	// Again returns what the user has to run, or to send as a line again, to get the answer to a request later.
	Again func(id string) string
}

// OpenRequester connects to NATS, and checks that the ledger exists: without streams, a request would only be
// retried until its time-out. closer closes the Requester's client.
func OpenRequester(ctx context.Context, s *cli.Shell, cfg *config.Config) (r *Requester, closer func(), err error) {
	nc, err := cli.OpenNATS(ctx, s, cfg.NATS)
	if err != nil {
		return nil, nil, err
	}
	r = &Requester{Shell: s}
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

// one publishes e, unless its id has a final reply already. It returns as a view the final reply or, after a
// time-out, the latest known state; with --no-wait, the request that was published. The error sets the exit
// code. given means that the user chose the id, which may have been used before.
func (r *Requester) one(ctx context.Context, e events.Event, given bool) (cli.View, error) {
	ctx, cancel := context.WithTimeout(ctx, r.Timeout)
	defer cancel()
	pending := view.PendingOf(e, r.Subjects)
	if reply, answered := r.answered(ctx, given, pending.Subject); answered {
		if r.noWait && reply.Answers(e) {
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
	reply, err := r.Client.Ask(ctx, e, requests.OnWaiting(func(reply events.Reply) { r.Shell.Say("%s", WaitingText(reply)) }))
	if rejected := (*requests.Rejected)(nil); err == nil || errors.As(err, &rejected) {
		return Final(e, reply)
	}
	pending.Waiting = reply.Waiting
	return r.Unanswered(pending, err)
}

// answered returns the final reply that the ledger already has for an id that the user chose. The first final
// reply stands, even if the id is used again. If the ledger cannot be read, it returns false, and the client
// finds the reply or waits for it.
func (r *Requester) answered(ctx context.Context, given bool, subject string) (events.Reply, bool) {
	if !given {
		return events.Reply{}, false
	}
	stored, found, err := r.Ledger.Last(ctx, subject)
	return stored.Reply, err == nil && found && stored.Reply.Final()
}

// Final returns a final reply to e as a view, with the error that sets the exit code. If another request has used
// e's id, the error has the exit code of a conflict; the view is nil if that request is another tenant's.
func Final(e events.Event, reply events.Reply) (cli.View, error) {
	switch {
	case !reply.Answers(e) && reply.Answers(events.Event{Type: e.Type}): // but for the tenant
		return nil, &cli.ExitError{Code: cli.ExitConflict, Err: requests.ErrForeignReply}
	case !reply.Answers(e):
		return view.Reply{Reply: reply}, &cli.ExitError{Code: cli.ExitConflict, Err: fmt.Errorf(
			"request id %s was used before for another kind of request, which is answered as %s; send the %s under a new id", e.ID, reply.Status, e.Type)}
	case reply.Status == events.StatusRejected:
		return view.Reply{Reply: reply}, &requests.Rejected{Reply: reply}
	default:
		return view.Reply{Reply: reply}, nil
	}
}

// Unanswered returns the view and the error of a request without an answer: the answer did not come in time,
// or the request could not be published. If err is InvalidEvent, it returns err without a view, as a conflict if
// the id is another request's.
func (r *Requester) Unanswered(p view.Pending, err error) (cli.View, error) {
	if errors.Is(err, requests.ErrForeignReply) {
		return nil, &cli.ExitError{Code: cli.ExitConflict, Err: err}
	}
	if engine.CodeOf(err) == engine.CodeInvalidEvent {
		return nil, err
	}
	err = fmt.Errorf("%w; pick the answer up with: %s", flat{err}, r.Again(p.RequestID))
	p.Error = &cli.LineError{Code: engine.CodeOf(err), Message: err.Error()}
	return p, err
}

// flat is an error with the text of another, folded into one line.
type flat struct{ error }

func (f flat) Error() string { return cli.OneLineOf(f.error) }

func (f flat) Unwrap() error { return f.error }

// WaitingText describes a waiting request in one line: the reason, its place and its deadline.
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

// requestFlagSet has the flags of every request.
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

// common are the flags of requests that are allowed with -f.
var common = map[string]bool{"file": true, "stdin": true, "no-wait": true, "timeout": true, "yes": true}

// check returns a usage error, nil for none. lines reports whether requests are read as lines, from a file or
// standard input.
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
			err = cli.Usagef("-f and --%s exclude each other; write it into the JSON lines", flag.Name)
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

// flagNames replaces the fields of events by the flags for them.
var flagNames = strings.NewReplacer(
	"data.runtimeID", "--runtime", "data.globalAccountID", "--global-account", "data.plan", "--plan",
	"data.platformRegion", "--platform-region", "data.hyperscalerRegion", "--hyperscaler-region",
	"data.provider", "--provider", "data.shootName", "--shoot", "data.binding", "--binding",
	"data.interface.path", "--interface", "data.generation", "--generation",
)

// checkEvent returns a usage error for an invalid event, before hapctl connects to anything.
func checkEvent(e events.Event) error {
	e.Source = cli.Source
	if _, err := events.EncodeEvent(e); err != nil {
		return cli.Usagef("%s", flagNames.Replace(err.Error()))
	}
	return nil
}

// again returns the command line that repeats the request under its id, with its flags and those of the
// connections. It leaves out those in common, the form of output, and, since the line is printed, secret URLs.
func again(cmd *cobra.Command, id string) string {
	words := []string{cmd.CommandPath()}
	cmd.Flags().Visit(func(flag *pflag.Flag) {
		if common[flag.Name] || slices.Contains([]string{"id", "output", "no-headers"}, flag.Name) || secret(flag) {
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

// secret reports whether the flag has URLs, one of which has a user or a query, or cannot be parsed.
func secret(flag *pflag.Flag) bool {
	urls := flag.Value.String()
	return strings.HasSuffix(flag.Name, "-url") && connect.Shown(strings.Split(urls, ",")) != urls
}

// requestCommand makes cmd the command for requests of type t. event returns the event that the flags
// describe. With -f or --stdin, each line is the data of such an event, and hapctl publishes it without
// asking. look, if not nil, returns the check for doubts.
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
			r.Shell.Say("request %s", e.ID)
		}
		return r.runOne(cmd.Context(), e, f.id != "")
	}
	return cmd
}

// runLines publishes the requests in a file or standard input.
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

// connect opens a Requester. Concurrent requests share its stderr.
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
		if printing := r.Shell.Print(v); printing != nil {
			return printing
		}
	}
	return err
}

// open opens the source of the lines.
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
