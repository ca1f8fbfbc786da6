package repair

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/spf13/cobra"

	"github.com/hap-worker/hap-worker/cmd/connect"
	"github.com/hap-worker/hap-worker/cmd/hapctl/cli"
	"github.com/hap-worker/hap-worker/counters/landscapes"
	"github.com/hap-worker/hap-worker/engine"
	"github.com/hap-worker/hap-worker/events"
	"github.com/hap-worker/hap-worker/ledger/storage"
	"github.com/hap-worker/hap-worker/worker/config"
)

// NewLandscape returns the command hapctl landscape.
func NewLandscape(s *cli.Shell) *cobra.Command {
	return cli.Group("landscape COMMAND", "Show or change the landscape that Redis and the ledger belong to",
		newLandscapeShow(s), newLandscapeAdopt(s))
}

// placeView is the landscape of one place. docs/hapctl.md documents its fields.
type placeView struct {
	Place     string `json:"place"` // gardener, redis or ledger
	At        string `json:"at"`
	Recorded  bool   `json:"recorded"`
	Namespace string `json:"namespace,omitempty"`
	Resource  string `json:"resource,omitempty"`
	Cluster   string `json:"cluster,omitempty"`
	Problem   string `json:"problem,omitempty"` // why the record cannot be read
	Same      bool   `json:"same"`              // the place has no record, or one that agrees with the bindings
}

// landscapeView compares the landscapes of all three places.
type landscapeView struct {
	Places []placeView `json:"places"`
	Same   bool        `json:"same"`
}

func (v landscapeView) Show(w io.Writer, _ bool) {
	rows := make([][]string, len(v.Places))
	for i, p := range v.Places {
		said := p.Problem
		switch {
		case said != "":
		case !p.Recorded:
			said = "says nothing"
		case !p.Same:
			said = "another landscape"
		}
		rows[i] = cli.Dashed([]string{p.Place, p.At, p.Namespace, p.Resource, p.Cluster, said})
	}
	cli.Table(w, []string{"PLACE", "AT", "NAMESPACE", "RESOURCE", "UID", "NOTE"}, rows)
}

// bearings has the landscapes of the bindings, of Redis and of the ledger, and what changes the last two.
type bearings struct {
	own        engine.Landscape // of the bindings
	adoptRedis func(context.Context, engine.Landscape) error
	ledger     landscapeLedger
	view       landscapeView
}

// landscapeLedger is the ledger's record of its landscape; package storage implements it.
type landscapeLedger interface {
	Landscape(ctx context.Context) (engine.Landscape, bool, error)
	SetLandscape(ctx context.Context, landscape engine.Landscape) error
}

// withBearings reads the landscape of each place and calls run.
func withBearings(ctx context.Context, s *cli.Shell, cfg *config.Config, run func(*bearings) error) error {
	client, _, err := connect.Gardener(cfg.Gardener, s.Connections.Context, func(text string) { s.Say("%s", text) })
	if err != nil {
		return fmt.Errorf("%w; set %s", err, cli.GardenerSetting)
	}
	b := &bearings{}
	if b.own, err = cli.LandscapeOf(ctx, client); err != nil {
		return err
	}
	store, _, err := cli.DialRedis(ctx, s, cfg.Redis)
	if err != nil {
		return err
	}
	b.adoptRedis = func(ctx context.Context, l engine.Landscape) error { return landscapes.Adopt(ctx, store, l) }
	kept, recorded, err := landscapes.Recorded(ctx, store)
	if err := b.add("gardener", client.Server(), b.own, true, nil); err != nil {
		return err
	}
	if err := b.add("redis", connect.Shown(cfg.Redis.URL), kept, recorded, err); err != nil {
		return err
	}
	nc, err := cli.OpenNATS(ctx, s, cfg.NATS)
	if err != nil {
		return err
	}
	js, err := jetstream.New(nc)
	if err != nil {
		return err
	}
	stream, err := cli.FindLedger(ctx, js, cfg.NATS)
	if err != nil {
		return err
	}
	subjects, err := events.NewSubjects(cfg.NATS.Prefix)
	if err != nil {
		return err
	}
	b.ledger = storage.NewLedger(js, subjects, cli.Source)
	named, recorded, err := storage.LandscapeOf(stream)
	if err := b.add("ledger", connect.Shown(cfg.NATS.URL), named, recorded, err); err != nil {
		return err
	}
	b.view.Same = !slices.ContainsFunc(b.view.Places, func(p placeView) bool { return !p.Same })
	return run(b)
}

// add adds the landscape of a place. err is the error of reading its record; add returns err if it is not
// about the record.
func (b *bearings) add(place, at string, l engine.Landscape, recorded bool, err error) error {
	v := placeView{Place: place, At: at, Recorded: recorded, Namespace: l.Namespace, Resource: l.Resource, Cluster: l.Cluster}
	switch foreign := engine.OneLandscape(engine.Place{Landscape: b.own}, engine.Place{Landscape: l}, recorded, err); {
	case err != nil && foreign == err: //nolint:errorlint // the very same: it is no word about a record
		return err
	case err != nil:
		v.Problem = cli.OneLineOf(err)
	default:
		v.Same = foreign == nil
	}
	b.view.Places = append(b.view.Places, v)
	return nil
}

func newLandscapeShow(s *cli.Shell) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "show",
		Short: "Show which landscape the bindings, Redis and the ledger belong to",
		Long: `Show which landscape the bindings, Redis and the ledger belong to. A landscape is the
namespace and the resource of the bindings, and the uid of the namespace, which tells
clusters apart. The first worker records the landscape in Redis and in the metadata
of HAP_REPLIES. If the records differ, workers refuse to work, and so do all other
hapctl commands that read Redis, the streams or Gardener.

The exit code is 5 if they differ.`,
		Example: `  hapctl landscape show
  hapctl landscape show --context live -n garden-kyma`,
		Args: cli.Arguments(cobra.NoArgs),
	}
	return s.Reader(cmd, "for Gardener, Redis and NATS", func(ctx context.Context, cfg *config.Config, _ []string) error {
		return withBearings(ctx, s, cfg, func(b *bearings) error {
			if err := s.Print(b.view); err != nil {
				return err
			}
			if !b.view.Same {
				return cli.Said(cli.ExitConflict)
			}
			return nil
		})
	})
}

// adoption is the output of hapctl landscape adopt.
type adoption struct {
	Namespace string      `json:"namespace"`
	Resource  string      `json:"resource"`
	Cluster   string      `json:"cluster,omitempty"`
	Before    []placeView `json:"before"`
	Changed   []string    `json:"changed"` // the places whose record was changed, or would be with --dry-run: redis, ledger
	DryRun    bool        `json:"dryRun"`
}

func (v adoption) Show(w io.Writer, _ bool) {
	landscapeView{Places: v.Before}.Show(w, false)
	fmt.Fprintln(w)
	changed := "CHANGED"
	if v.DryRun {
		changed = "WOULD CHANGE"
	}
	cli.Pairs(w, [][2]string{{changed, cmp.Or(strings.Join(v.Changed, ","), "-")}})
}

func newLandscapeAdopt(s *cli.Shell) *cobra.Command {
	var yes, dryRun bool
	cmd := &cobra.Command{
		Use:   "adopt",
		Short: "Record the landscape of the bindings in Redis and the ledger",
		Long: `Record in Redis and the ledger that they belong to the landscape of the configured
bindings, whatever they record now. Use it if the namespace was renamed or created
again, or if the resource of the bindings changed. hapctl changes nothing else. Stop
the workers of the landscape first, and run 'hapctl counters verify' afterwards.

Only a worker's credentials may change the metadata of HAP_REPLIES: pass the worker's
configuration with --config. If the ledger names another landscape and hapctl may not
change it, hapctl changes nothing.`,
		Example: `  hapctl landscape adopt --config hap-worker.yaml --dry-run
  hapctl landscape adopt --config hap-worker.yaml`,
		Args: cli.Arguments(cobra.NoArgs),
	}
	cmd.Flags().BoolVar(&yes, "yes", false, "do not ask before the change")
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "show the change, but do not make it")
	// The time includes the user's answer to the question.
	return s.ReaderWithin(cmd, cli.AuditWithin, "for Gardener, Redis and NATS, and for your answer to the question", func(ctx context.Context, cfg *config.Config, _ []string) error {
		return withBearings(ctx, s, cfg, func(b *bearings) error { return runAdopt(ctx, s, b, yes, dryRun) })
	})
}

func runAdopt(ctx context.Context, s *cli.Shell, b *bearings, yes, dryRun bool) error {
	v := adoption{
		Namespace: b.own.Namespace, Resource: b.own.Resource, Cluster: b.own.Cluster,
		Before: b.view.Places, Changed: []string{}, DryRun: dryRun,
	}
	var replaced []string
	for _, p := range b.view.Places[1:] {
		if p.Recorded && p.Same && (p.landscape() == b.own || b.own.Cluster == "") {
			continue
		}
		if p.Cluster != "" && b.own.Cluster == "" {
			return fmt.Errorf("nothing was changed: %s at %s has %s, and the uid of the bindings' namespace is not known; use a kubeconfig with the right to get namespace %s",
				p.Place, p.At, p.told(), b.own.Namespace)
		}
		v.Changed = append(v.Changed, p.Place)
		replaced = append(replaced, fmt.Sprintf("%s at %s, which has %s", p.Place, p.At, p.told()))
	}
	if len(v.Changed) == 0 || dryRun {
		return s.Print(v)
	}
	what := fmt.Sprintf("record %s, of Gardener at %s, in %s", b.own, b.view.Places[0].At, strings.Join(replaced, ", and in "))
	if err := s.Confirm(ctx, what, yes); err != nil {
		return err
	}
	ledger := b.view.Places[2]
	if slices.Contains(v.Changed, ledger.Place) {
		changed, err := b.setLedger(ctx, s, ledger)
		if err != nil {
			return err
		}
		if !changed {
			v.Changed = slices.DeleteFunc(v.Changed, func(place string) bool { return place == ledger.Place })
		}
	}
	if !slices.Contains(v.Changed, "redis") {
		return s.Print(v)
	}
	failed := b.adoptRedis(ctx, b.own)
	if failed != nil {
		v.Changed = slices.DeleteFunc(v.Changed, func(place string) bool { return place == "redis" })
		if len(v.Changed) == 0 {
			return failed
		}
		failed = fmt.Errorf("the ledger was changed, Redis was not, or did not say so (%w); run it again", failed)
	}
	if err := s.Print(v); err != nil {
		return err
	}
	return failed
}

// setLedger records the landscape in the ledger, and reports whether that is known to have succeeded. If it is not, and
// the ledger named another landscape before, it returns an error: Redis then stays as it is.
func (b *bearings) setLedger(ctx context.Context, s *cli.Shell, ledger placeView) (changed bool, err error) {
	err = b.ledger.SetLandscape(ctx, b.own)
	if err == nil {
		return true, nil
	}
	changed, known := b.ledgerAfter(ctx, err)
	switch {
	case changed:
		s.Say("the ledger was changed, though the answer was lost (%s)", cli.OneLineOf(err))
		return true, nil
	case !ledger.Same && !known:
		return false, fmt.Errorf("whether the ledger was changed is unknown (%w), and Redis was not changed; look at hapctl landscape show, and run it again", err)
	case !ledger.Same:
		return false, fmt.Errorf("nothing was changed: the ledger names another landscape and could not be changed (%w); use credentials that may change the stream, such as the worker's", err)
	case !known:
		s.Say("whether the ledger was changed is unknown (%s); hapctl landscape show says it", cli.OneLineOf(err))
	default:
		s.Say("the ledger could not be changed (%s); workers compare only Redis with the bindings", cli.OneLineOf(err))
	}
	return false, nil
}

// ledgerAfter reports whether the ledger was changed by a change that failed. A refusal changes nothing. After
// any other error, such as a lost answer, it reads the record again; known is false if that fails too.
func (b *bearings) ledgerAfter(ctx context.Context, failed error) (changed, known bool) {
	var refused *jetstream.APIError
	if errors.As(failed, &refused) || errors.Is(failed, engine.ErrNoLandscape) {
		return false, true
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cli.ReadWithin) // ctx may be what ended
	defer cancel()
	has, recorded, err := b.ledger.Landscape(ctx)
	return err == nil && recorded && has == b.own, err == nil
}

func (p placeView) landscape() engine.Landscape {
	return engine.Landscape{Cluster: p.Cluster, Namespace: p.Namespace, Resource: p.Resource}
}

func (p placeView) told() string {
	switch {
	case p.Problem != "":
		return "an unreadable record"
	case !p.Recorded:
		return "no record"
	}
	return p.landscape().String()
}
