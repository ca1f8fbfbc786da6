package repair

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/spf13/cobra"

	"github.com/hap-worker/hap-worker/cmd/hapctl/cli"
	"github.com/hap-worker/hap-worker/events"
	"github.com/hap-worker/hap-worker/ledger/foreign"
	"github.com/hap-worker/hap-worker/worker/config"
)

// foreignView is a message that workers cannot read. docs/hapctl.md documents its fields.
type foreignView struct {
	Stream    string    `json:"stream"`
	Sequence  uint64    `json:"sequence"`
	Subject   string    `json:"subject"`
	StoredAt  time.Time `json:"storedAt"`
	Bytes     int       `json:"bytes"`
	Why       string    `json:"why"`
	Reply     bool      `json:"reply"`
	RequestID string    `json:"requestID,omitempty"`
	RuntimeID string    `json:"runtimeID,omitempty"`
}

func viewOfForeign(m foreign.Message) foreignView {
	return foreignView{
		Stream: m.Stream, Sequence: m.Sequence, Subject: m.Subject, StoredAt: m.Time.UTC(), Bytes: m.Bytes, Why: m.Err.Error(),
		Reply: m.Reply, RequestID: m.Request.RequestID, RuntimeID: m.Request.RuntimeID,
	}
}

type foreignList struct {
	Messages []foreignView `json:"messages"`
}

func (v foreignList) Show(w io.Writer, wide bool) {
	header := []string{"STREAM", "SEQUENCE", "STORED", "BYTES", "SUBJECT"}
	if wide {
		header = append(header, "REPLY", "REQUEST", "WHY")
	}
	rows := make([][]string, len(v.Messages))
	for i, m := range v.Messages {
		row := []string{m.Stream, strconv.FormatUint(m.Sequence, 10), m.StoredAt.Format(time.RFC3339), strconv.Itoa(m.Bytes), m.Subject}
		if wide {
			row = append(row, cli.Yes(m.Reply), m.RequestID, m.Why)
		}
		rows[i] = cli.Dashed(row)
	}
	if wide {
		cli.Table(w, header, rows)
		return
	}
	cli.Fitted(w, header, rows, "SUBJECT")
}

// foreignDetail is a message that workers cannot read, with its headers and data.
type foreignDetail struct {
	foreignView
	Headers    map[string][]string `json:"headers"`
	Data       string              `json:"data"`
	DataBase64 []byte              `json:"dataBase64,omitempty"` // the data, if it is no UTF-8
}

func (v foreignDetail) Show(w io.Writer, _ bool) {
	lines := [][2]string{
		{"STREAM", v.Stream}, {"SEQUENCE", strconv.FormatUint(v.Sequence, 10)}, {"STORED", v.StoredAt.Format(time.RFC3339)},
		{"SUBJECT", v.Subject}, {"BYTES", strconv.Itoa(v.Bytes)}, {"WHY", v.Why}, {"REPLY", cli.Yes(v.Reply)}, {"REQUEST", v.RequestID}, {"RUNTIME", v.RuntimeID},
	}
	for _, name := range slices.Sorted(maps.Keys(v.Headers)) {
		for _, value := range v.Headers[name] {
			lines = append(lines, [2]string{"HEADER", name + ": " + value})
		}
	}
	cli.Pairs(w, lines)
	fmt.Fprintf(w, "\n%s\n", v.Data)
}

// removedView is the output of foreign remove.
type removedView struct {
	foreignView
	Removed bool `json:"removed"`
	DryRun  bool `json:"dryRun"`
}

func (v removedView) Show(w io.Writer, _ bool) {
	removed := "REMOVED"
	if v.DryRun {
		removed = "WOULD REMOVE"
	}
	cli.Pairs(w, [][2]string{{removed, fmt.Sprintf("sequence %d of %s", v.Sequence, v.Stream)}, {"SUBJECT", v.Subject}, {"BYTES", strconv.Itoa(v.Bytes)}})
}

// NewForeign returns the command hapctl foreign.
func NewForeign(s *cli.Shell) *cobra.Command {
	return cli.Group("foreign COMMAND", "Show and remove messages that workers cannot read",
		newForeignList(s), newForeignShow(s), newForeignRemove(s))
}

func newForeignList(s *cli.Shell) *cobra.Command {
	stream := cli.Choice{Of: foreign.Streams()}
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the messages that workers cannot read",
		Long: `List the messages of HAP_EVENTS, HAP_WAITING and HAP_REPLIES that workers of this
version cannot read. Workers skip those of HAP_WAITING and HAP_REPLIES and count them
in hap_foreign_messages_total. They turn those of HAP_EVENTS into dead letters. hapctl
reads the whole ledger.`,
		Example: `  hapctl foreign list
  hapctl foreign list --stream HAP_WAITING -o wide`,
		Args: cli.Arguments(cobra.NoArgs),
	}
	stream.Flag(cmd, "stream", "show only messages of the `stream`")
	return s.ReaderWithin(cmd, cli.AuditWithin, "for NATS", func(ctx context.Context, cfg *config.Config, _ []string) error {
		return withForeign(ctx, s, cfg, func(messages *foreign.Messages) error {
			list := foreignList{Messages: []foreignView{}}
			for _, name := range stream.Of {
				if stream.Taken != "" && stream.Taken != name {
					continue
				}
				err := messages.Each(ctx, name, func(m foreign.Message) error {
					list.Messages = append(list.Messages, viewOfForeign(m))
					return nil
				})
				if err != nil {
					return err
				}
			}
			return s.PrintSome(list, len(list.Messages), "messages that cannot be read")
		})
	})
}

func newForeignShow(s *cli.Shell) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "show STREAM SEQUENCE",
		Short:   "Show one message that workers cannot read",
		Long:    "Show one message that workers cannot read, with its headers and data.",
		Example: `  hapctl foreign show HAP_REPLIES 4711`,
		Args:    cli.Arguments(cobra.ExactArgs(2)),
	}
	return s.Reader(cmd, "for NATS", func(ctx context.Context, cfg *config.Config, args []string) error {
		return withForeignMessage(ctx, s, cfg, args, func(_ *foreign.Messages, m foreign.Message) error {
			return s.Print(foreignDetail{foreignView: viewOfForeign(m), Headers: m.Header, Data: string(m.Data), DataBase64: cli.NoText(m.Data)})
		})
	})
}

func newForeignRemove(s *cli.Shell) *cobra.Command {
	var yes, dryRun bool
	cmd := &cobra.Command{
		Use:   "remove STREAM SEQUENCE",
		Short: "Remove one message that workers cannot read",
		Long: `Remove one message of HAP_WAITING or HAP_REPLIES that workers cannot read, and no
other message. hapctl prints the message's first bytes and, on a terminal, asks
before it removes the message. Without a terminal, --yes is required.

hapctl never removes a message that may be a newer worker's answer. If a message in
HAP_WAITING has the subject of a request, it may be a request that a newer worker can
read, and removing it would lose the request: run a newer worker first.

Only a worker's credentials may purge the stream: pass the worker's configuration
with --config.`,
		Example: `  hapctl foreign remove HAP_WAITING 12 --dry-run
  hapctl foreign remove HAP_WAITING 12 --config hap-worker.yaml`,
		Args: cli.Arguments(cobra.ExactArgs(2)),
	}
	cmd.Flags().BoolVar(&yes, "yes", false, "do not ask before the message is removed")
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "show the message, but do not remove it")
	// The time includes the user's answer to the question.
	return s.ReaderWithin(cmd, cli.AuditWithin, "for NATS, and for your answer to the question", func(ctx context.Context, cfg *config.Config, args []string) error {
		return withForeignMessage(ctx, s, cfg, args, func(messages *foreign.Messages, m foreign.Message) error {
			return removeForeign(ctx, s, messages, m, yes, dryRun)
		})
	})
}

func removeForeign(ctx context.Context, s *cli.Shell, messages *foreign.Messages, m foreign.Message, yes, dryRun bool) error {
	if err := messages.Kept(ctx, m); err != nil {
		return fmt.Errorf("sequence %d of %s: %w", m.Sequence, m.Stream, err)
	}
	if m.Request.RequestID != "" {
		s.Say("its subject is that of request %s of runtime %s: if a newer worker can read it, removing it loses the request", m.Request.RequestID, m.Request.RuntimeID)
	}
	v := removedView{foreignView: viewOfForeign(m), DryRun: dryRun}
	if dryRun {
		return s.Print(v)
	}
	if err := s.Confirm(ctx, removalText(m), yes); err != nil {
		return err
	}
	if err := messages.Remove(ctx, m); err != nil {
		return removalError(err)
	}
	v.Removed = true
	return s.Print(v)
}

// foreignBytes is how many bytes of a message are shown before it is removed.
const foreignBytes = 60

func removalText(m foreign.Message) string {
	text := fmt.Sprintf("remove sequence %d of %s, on %s, %s", m.Sequence, m.Stream, m.Subject, cli.Count(m.Bytes, "byte"))
	if len(m.Data) == 0 {
		return text
	}
	return fmt.Sprintf("%s, which begin with %q", text, m.Data[:min(len(m.Data), foreignBytes)])
}

// removalError adds which credentials are needed. A server that denies the right may not answer at all; that
// counts as a failure, not as a time-out of the command.
func removalError(err error) error {
	if errors.Is(err, foreign.ErrKept) {
		return err
	}
	return &cli.ExitError{Code: cli.ExitFailure, Err: fmt.Errorf(
		"%s; it needs credentials that may purge the stream, such as the worker's: --config", cli.OneLineOf(err))}
}

// withForeign connects to NATS, and calls run with access to the messages that cannot be read.
func withForeign(ctx context.Context, s *cli.Shell, cfg *config.Config, run func(*foreign.Messages) error) error {
	return s.WithStreams(ctx, cfg, func(js jetstream.JetStream, subjects events.Subjects) error {
		return run(foreign.New(js, subjects))
	})
}

// withForeignMessage calls run with the message that the arguments STREAM and SEQUENCE name.
func withForeignMessage(ctx context.Context, s *cli.Shell, cfg *config.Config, args []string, run func(*foreign.Messages, foreign.Message) error) error {
	stream := cli.Choice{Of: foreign.Streams()}
	if err := stream.Set(args[0]); err != nil || args[0] == "" {
		return cli.Usagef("%q is none of the streams; it must be one of %s", args[0], strings.Join(stream.Of, ", "))
	}
	sequence, err := strconv.ParseUint(args[1], 10, 64)
	if err != nil || sequence == 0 {
		return cli.Usagef("%q is no sequence; 'hapctl foreign list' has them", args[1])
	}
	return withForeign(ctx, s, cfg, func(messages *foreign.Messages) error {
		m, err := messages.Find(ctx, stream.Taken, sequence)
		if errors.Is(err, jetstream.ErrMsgNotFound) {
			return fmt.Errorf("%s has no message %d; 'hapctl foreign list' has those that cannot be read", stream.Taken, sequence)
		}
		if err != nil {
			return err
		}
		return run(messages, m)
	})
}
