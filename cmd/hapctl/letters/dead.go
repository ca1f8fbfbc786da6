// Package letters implements hapctl dead, which lists, shows and replays dead letters.
package letters

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/spf13/cobra"

	"github.com/hap-worker/hap-worker/cmd/hapctl/cli"
	"github.com/hap-worker/hap-worker/engine"
	"github.com/hap-worker/hap-worker/events"
	"github.com/hap-worker/hap-worker/events/contract"
	"github.com/hap-worker/hap-worker/ledger/dead"
	"github.com/hap-worker/hap-worker/worker/config"
)

// Letter is a dead letter.
type Letter struct {
	Number        uint64      `json:"number"`
	StoredAt      time.Time   `json:"storedAt"`
	Type          string      `json:"type"`
	Code          engine.Code `json:"code"`
	Reason        string      `json:"reason"`
	RequestID     string      `json:"requestID,omitempty"`
	RuntimeID     string      `json:"runtimeID,omitempty"`
	Tenant        string      `json:"tenant,omitempty"`
	Binding       string      `json:"binding,omitempty"`
	ReplayOf      string      `json:"replayOf,omitempty"`
	Subject       string      `json:"subject"`
	EventSequence uint64      `json:"eventSequence"`
	Truncated     string      `json:"truncated,omitempty"`
	Valid         bool        `json:"valid"` // the event itself is valid; a replay may get another reply
}

// LetterOf returns a dead letter as hapctl shows it.
func LetterOf(l dead.Letter) Letter {
	kind := string(l.Event.Type)
	if kind == "" {
		kind = events.UnknownType
	}
	return Letter{
		Number: l.Number, StoredAt: l.StoredAt, Type: kind, Code: l.Code, Reason: l.Reason,
		RequestID: l.Event.ID, RuntimeID: l.Event.RuntimeID, Tenant: l.Tenant(), Binding: l.Event.Binding, ReplayOf: l.Event.ReplayOf,
		Subject: l.Subject, EventSequence: l.Sequence, Truncated: l.Truncated, Valid: l.Fault == nil,
	}
}

// letterDetail is a dead letter with its headers and data.
type letterDetail struct {
	Letter
	Headers    map[string][]string `json:"headers"`
	Data       string              `json:"data"`
	DataBase64 []byte              `json:"dataBase64,omitempty"` // the data, if it is no UTF-8
}

func detailOf(l dead.Letter) letterDetail {
	return letterDetail{Letter: LetterOf(l), Headers: l.Header, Data: string(l.Data), DataBase64: cli.NoText(l.Data)}
}

func (v letterDetail) Show(w io.Writer, wide bool) {
	whom := [2]string{"RUNTIME", v.RuntimeID}
	if v.Binding != "" {
		whom = [2]string{"BINDING", v.Binding}
	}
	lines := [][2]string{
		{"NUMBER", strconv.FormatUint(v.Number, 10)}, {"STORED", v.StoredAt.Format(time.RFC3339)}, {"TYPE", v.Type},
		{"REQUEST", v.RequestID}, whom, {"TENANT", v.Tenant}, {"REPLAY OF", v.ReplayOf}, {"CODE", string(v.Code)}, {"REASON", v.Reason},
		{"SUBJECT", v.Subject}, {"SEQUENCE", strconv.FormatUint(v.EventSequence, 10)}, {"TRUNCATED", v.Truncated},
	}
	if wide {
		lines = append(lines, [2]string{"MEANS", v.Code.Info().Means})
	}
	for _, name := range slices.Sorted(maps.Keys(v.Headers)) {
		for _, value := range v.Headers[name] {
			lines = append(lines, [2]string{"HEADER", name + ": " + value})
		}
	}
	cli.Pairs(w, lines)
	fmt.Fprintf(w, "\n%s\n", v.Data)
}

type letterList struct {
	Letters []Letter `json:"letters"`
}

func (v letterList) Show(w io.Writer, wide bool) {
	header := []string{"NUMBER", "STORED", "TYPE", "REQUEST", "RUNTIME", "CODE"}
	if wide {
		header = append(header, "BINDING", "REPLAY OF", "SUBJECT", "TENANT", "REASON")
	}
	rows := make([][]string, len(v.Letters))
	for i, l := range v.Letters {
		row := []string{strconv.FormatUint(l.Number, 10), l.StoredAt.Format(time.RFC3339), l.Type, l.RequestID, l.RuntimeID, string(l.Code)}
		if wide {
			row = append(row, l.Binding, l.ReplayOf, l.Subject, l.Tenant, l.Reason)
		}
		rows[i] = cli.Dashed(row)
	}
	if wide {
		cli.Table(w, header, rows)
		return
	}
	cli.Fitted(w, header, rows, "RUNTIME", "REQUEST", "CODE")
}

// typeNames returns the types of events, as in their subjects.
func typeNames() []string {
	var names []string
	for _, info := range events.Types() {
		names = append(names, string(info.Type))
	}
	return names
}

// letterFilter selects letters. An empty field selects all.
type letterFilter struct{ kind, code, runtime, tenant string }

func (f letterFilter) takes(v Letter) bool {
	return (f.kind == "" || v.Type == f.kind) && (f.code == "" || string(v.Code) == f.code) &&
		(f.runtime == "" || v.RuntimeID == f.runtime) && (f.tenant == "" || v.Tenant == f.tenant)
}

// New returns the command hapctl dead.
func New(s *cli.Shell) *cobra.Command {
	return cli.Group("dead COMMAND", "Show and replay dead letters", newDeadList(s), newDeadShow(s), newDeadReplay(s))
}

func newDeadList(s *cli.Shell) *cobra.Command {
	var f letterFilter
	kind := cli.Choice{Of: append(typeNames(), events.UnknownType)}
	var code cli.Choice
	for _, info := range contract.Codes() {
		code.Of = append(code.Of, string(info.Code))
	}
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the dead letters, oldest first",
		Long: `List the events that workers gave up, since each delivery would be refused for the same
reason, oldest first. They are kept for 30 days. CODE says why; -o wide shows the full
reason.`,
		Example: `  hapctl dead list
  hapctl dead list --code NoMatchingRule -o wide`,
		Args: cli.Arguments(cobra.NoArgs),
	}
	flags := cmd.Flags()
	kind.Flag(cmd, "type", "show only dead letters of the `type`")
	code.Flag(cmd, "code", "show only dead letters with the `code`")
	flags.StringVar(&f.runtime, "runtime", "", "show only dead letters of the runtime `id`")
	flags.StringVar(&f.tenant, "tenant", "", "show only dead letters of the global account `id`; an event may be too broken to read its id")
	s.CompleteFlags(cmd)
	return s.Reader(cli.WithNames(cmd), "for NATS", func(ctx context.Context, cfg *config.Config, _ []string) error {
		return WithDead(ctx, s, cfg, func(letters *dead.Letters) error {
			f.kind, f.code = kind.Taken, code.Taken
			list := letterList{Letters: []Letter{}}
			err := letters.Each(ctx, func(l dead.Letter) error {
				if v := LetterOf(l); f.takes(v) {
					list.Letters = append(list.Letters, v)
				}
				return nil
			})
			if err != nil {
				return err
			}
			return s.PrintSome(list, len(list.Letters), "dead letters")
		})
	})
}

func newDeadShow(s *cli.Shell) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "show NUMBER|REQUEST",
		Short: "Show one dead letter",
		Long:  "Show one dead letter with its original headers and data. Name it by its number in\n'hapctl dead list' or by its request id. If several have the request id, hapctl shows the\nnewest.",
		Example: `  hapctl dead show 12
  hapctl dead show req-7 -o json`,
		Args: cli.Arguments(cobra.ExactArgs(1)),
	}
	return s.Reader(cmd, "for NATS", func(ctx context.Context, cfg *config.Config, args []string) error {
		return WithDead(ctx, s, cfg, func(letters *dead.Letters) error {
			l, err := findLetter(ctx, letters, args[0])
			if err != nil {
				return err
			}
			return s.Print(detailOf(l))
		})
	})
}

// findLetter returns the letter whose number is which, or else the newest letter whose request id is which. It
// returns an error if there is neither.
func findLetter(ctx context.Context, letters *dead.Letters, which string) (dead.Letter, error) {
	if number, err := strconv.ParseUint(which, 10, 64); err == nil && number > 0 {
		l, err := letters.Letter(ctx, number)
		if !errors.Is(err, dead.ErrNoLetter) {
			return l, err
		}
	}
	var found *dead.Letter
	err := letters.Each(ctx, func(l dead.Letter) error {
		if l.Event.ID == which {
			found = &l
		}
		return nil
	})
	if err == nil && found == nil {
		err = fmt.Errorf("no dead letter has the number or request id %s; hapctl dead list shows those of the last 30 days", which)
	}
	if err != nil {
		return dead.Letter{}, err
	}
	return *found, nil
}

// WithDead opens the dead letters and calls run with them.
func WithDead(ctx context.Context, s *cli.Shell, cfg *config.Config, run func(*dead.Letters) error) error {
	return s.WithStreams(ctx, cfg, func(js jetstream.JetStream, subjects events.Subjects) error {
		return run(dead.NewLetters(js, subjects))
	})
}

// Names returns the numbers of the letters: several letters may have one request id.
func (v letterList) Names() []string {
	return cli.NamesOf(v.Letters, func(l Letter) string { return strconv.FormatUint(l.Number, 10) })
}
