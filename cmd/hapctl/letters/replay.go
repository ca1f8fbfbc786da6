package letters

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/hap-worker/hap-worker/cmd/hapctl/cli"
	"github.com/hap-worker/hap-worker/cmd/hapctl/request"
	"github.com/hap-worker/hap-worker/cmd/hapctl/view"
	"github.com/hap-worker/hap-worker/engine"
	"github.com/hap-worker/hap-worker/events"
	"github.com/hap-worker/hap-worker/events/requests"
	"github.com/hap-worker/hap-worker/ledger/dead"
)

// mostReplays is the highest N in the new id of a replay, OLD-rN.
const mostReplays = 99

func newDeadReplay(s *cli.Shell) *cobra.Command {
	var yes, stdin, older bool
	var timeout time.Duration
	cmd := &cobra.Command{
		Use:   "replay (NUMBER|REQUEST | --stdin)",
		Short: "Publish a dead letter again and show its reply",
		Long: `Publish a dead letter again and wait for its final reply. hapctl publishes it as a
new request. The new request id is the old one followed by -r1, or by -r2 if -r1
exists, and so on. The extension replayof has the old id. The dead letter is not
removed.

hapctl does not publish an event that is invalid by itself, because a worker would
refuse it again. It needs --older for a letter that is older than nats.retention:
then nothing says any more whether its runtime was deprovisioned, and an account may
be held for one that is gone. On a terminal, hapctl asks before it publishes. Without
a terminal, --yes is required.

With --stdin, each input line is {"letter":"12"}, with a number or a request id. For
each line, hapctl prints the reply as one line of JSON. The exit code is the highest
of all replies.`,
		Example: `  hapctl dead replay 12
  hapctl dead list --code NoMatchingRule -o json | jq -c '.letters[] | {letter: (.number | tostring)}' |
    hapctl dead replay --stdin --yes`,
		Args: cli.Arguments(cobra.MaximumNArgs(1)),
	}
	flags := cmd.Flags()
	flags.BoolVar(&yes, "yes", false, "do not ask before hapctl publishes")
	flags.BoolVar(&stdin, "stdin", false, "read dead letters from standard input, one JSON object per line")
	flags.BoolVar(&older, "older", false, "publish letters that are older than nats.retention, too")
	flags.DurationVar(&timeout, "timeout", request.AnswerWithin, "how long to wait for the reply to each dead letter")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		switch {
		case timeout <= 0:
			return cli.Usagef("--timeout is %s, must be positive", timeout)
		case stdin && len(args) > 0:
			return cli.Usagef("--stdin takes no argument; write {\"letter\":%q} on a line of standard input", args[0])
		case !stdin && len(args) == 0:
			return cli.Usagef("no letter; name it by its number or request id, or read letters with --stdin")
		case stdin && !yes:
			return cli.Usagef("--stdin needs --yes: there is no terminal to ask on")
		}
		return withReplayer(cmd.Context(), s, timeout, func(ctx context.Context, r *replayer) error {
			r.older = older
			if !stdin {
				return r.named(ctx, args[0], yes)
			}
			s.Announce("publish the dead letters of standard input once more")
			return cli.RunLines(ctx, s, r.line)
		})
	}
	return cmd
}

// replayer publishes letters again.
type replayer struct {
	*request.Requester
	dead  *dead.Letters
	keep  time.Duration     // how long the ledger keeps the replies of a released runtime
	older bool              // letters may be older than that
	taken map[string]uint64 // by reply subject: the letter that this command replays under it
}

// withReplayer connects a replayer and calls run with it.
func withReplayer(ctx context.Context, s *cli.Shell, timeout time.Duration, run func(context.Context, *replayer) error) error {
	cfg, err := s.Connections.Settings()
	if err != nil {
		return err
	}
	opening, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	r, closer, err := request.OpenRequester(opening, s, cfg)
	if err != nil {
		return err
	}
	defer closer()
	r.Timeout = timeout
	return WithDead(opening, s, cfg, func(letters *dead.Letters) error {
		return run(ctx, &replayer{Requester: r, dead: letters, keep: cfg.NATS.Retention, taken: map[string]uint64{}})
	})
}

func (r *replayer) named(ctx context.Context, which string, yes bool) error {
	l, e, err := r.event(ctx, which)
	if err != nil {
		return err
	}
	if err := r.Shell.Confirm(ctx, fmt.Sprintf("publish the %s %s, dead since %s as %s, once more",
		e.Type, l.Event.ID, l.StoredAt.Format(time.RFC3339), l.Code), yes); err != nil {
		return err
	}
	r.Shell.Say("replaying dead letter %d (%s: %s) as request %s", l.Number, l.Code, l.Event.ID, e.ID)
	v, err := r.publish(ctx, e)
	if v != nil {
		if printing := r.Shell.Print(v); printing != nil {
			return printing
		}
	}
	return err
}

// letterLine is a line of standard input.
type letterLine struct {
	Letter string `json:"letter"`
}

func (r *replayer) line(ctx context.Context, in letterLine) (any, error) {
	if in.Letter == "" {
		return nil, cli.InvalidLine(fmt.Errorf("letter is missing"))
	}
	_, e, err := r.event(ctx, in.Letter)
	if err != nil {
		return nil, err
	}
	v, err := r.publish(ctx, e)
	if v == nil { // a nil pointer in an any is not nil
		return nil, err
	}
	return v, err
}

// event returns the letter and the event that replays it, under a request id that has no reply in the ledger.
// If the event of the letter is invalid by itself, the error is InvalidEvent.
func (r *replayer) event(ctx context.Context, which string) (dead.Letter, events.Event, error) {
	ctx, cancel := context.WithTimeout(ctx, r.Timeout)
	defer cancel()
	l, err := findLetter(ctx, r.dead, which)
	if err != nil {
		return l, events.Event{}, err
	}
	if l.Fault != nil {
		return l, events.Event{}, &engine.Error{
			Code: engine.CodeInvalidEvent, Op: "dead letter " + which, Err: l.Fault,
			Hint: "it would be refused again: publish a corrected event under a new id",
		}
	}
	if err := r.tooOld(l); err != nil {
		return l, events.Event{}, err
	}
	e := l.Event
	first := cmp.Or(e.ReplayOf, e.ID)
	e.ReplayOf = first
	for n := 1; n <= mostReplays; n++ {
		e.ID = fmt.Sprintf("%s-r%d", first, n)
		if !engine.ValidID(e.ID) {
			return l, e, fmt.Errorf("%s is too long for a replay's id %s: publish the event under a new id", first, e.ID)
		}
		subject := e.ReplySubject(r.Subjects)
		if by, taken := r.taken[subject]; taken && by != l.Number {
			continue // another letter of the same request, whose replay has no reply yet
		}
		_, used, err := r.Ledger.Last(ctx, subject)
		if err != nil || !used {
			r.taken[subject] = l.Number
			return l, e, err
		}
	}
	return l, e, fmt.Errorf("%s was replayed %d times: publish the event under a new id", first, mostReplays)
}

// tooOld returns an error for a letter older than nats.retention, unless older letters are wanted: the ledger may have
// forgotten that its runtime was deprovisioned since, or its account released.
func (r *replayer) tooOld(l dead.Letter) error {
	if age := time.Since(l.StoredAt); age > r.keep && !r.older {
		return cli.Usagef("dead letter %d is %s old, and the ledger forgets what ended more than %s ago: it may not know what happened since; "+
			"ask the owner of the request, and add --older", l.Number, age.Round(time.Hour), r.keep)
	}
	return nil
}

// publish publishes an event. It returns as a view the final reply or, after a time-out, the latest known
// state. The error sets the exit code.
func (r *replayer) publish(ctx context.Context, e events.Event) (cli.View, error) {
	ctx, cancel := context.WithTimeout(ctx, r.Timeout)
	defer cancel()
	r.Again = func(string) string {
		if e.Binding != "" {
			return "hapctl explain --request " + e.ID
		}
		return "hapctl explain " + e.RuntimeID
	}
	if err := r.Client.Publish(ctx, e); err != nil {
		return r.Unanswered(view.PendingOf(e, r.Subjects), err)
	}
	waits := requests.OnWaiting(func(reply events.Reply) { r.Shell.Say("%s", request.WaitingText(reply)) })
	var reply events.Reply
	var err error
	if e.Binding != "" {
		reply, err = r.Client.AwaitRelease(ctx, e.Binding, e.ID, waits)
	} else {
		reply, err = r.Client.Await(ctx, e.RuntimeID, e.ID, waits)
	}
	if reply.Final() {
		return request.Final(e, reply)
	}
	pending := view.PendingOf(e, r.Subjects)
	pending.Waiting = reply.Waiting
	return r.Unanswered(pending, err)
}
