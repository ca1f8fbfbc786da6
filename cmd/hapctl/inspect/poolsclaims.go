package inspect

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/hap-worker/hap-worker/cmd/hapctl/cli"
	"github.com/hap-worker/hap-worker/engine"
	"github.com/hap-worker/hap-worker/events"
	"github.com/hap-worker/hap-worker/ledger/storage"
	"github.com/hap-worker/hap-worker/worker/config"
)

const (
	// claimsSince is how far back claims are counted for EMPTY-IN. claimsFor is how long a count is reused
	// while the pools are watched. claimsWithin bounds the time for the count, so that a NATS that does not
	// answer delays the pools only briefly.
	claimsSince  = 24 * time.Hour
	claimsFor    = time.Minute
	claimsWithin = 2 * time.Second
)

// claims counts the accounts of each pool that were claimed lately.
type claims struct {
	at     time.Time // when it was read
	window time.Duration
	of     map[string]int // by pool; nil if the ledger could not be read
}

// read counts the claims, unless the last count is recent. Its only error is an *engine.ForeignError. After another
// one, EMPTY-IN is left out: pools are shown without the ledger too.
func (c *claims) read(ctx context.Context, s *cli.Shell, cfg *config.Config) error {
	if now := time.Now(); !c.at.IsZero() && now.Sub(c.at) < claimsFor {
		return nil
	}
	c.at, c.of = time.Now(), nil
	ctx, cancel := context.WithTimeout(ctx, claimsWithin)
	defer cancel()
	found := map[string]int{}
	err := s.WithStreams(ctx, cfg, func(js jetstream.JetStream, subjects events.Subjects) error {
		since := c.at.Add(-claimsSince)
		extent, err := storage.NewLedger(js, subjects, cli.Source).Claims(ctx, since, newestMessages, func(stored events.Stored) error {
			if d := stored.Reply.Decision; d != nil {
				found[d.Pool]++
			}
			return nil
		})
		if extent.From.After(since) {
			since = extent.From // the ledger is younger, or not all of it was read
		}
		c.window = max(time.Hour, c.at.Sub(since))
		return err
	})
	if _, foreign := errors.AsType[*engine.ForeignError](err); foreign {
		return err
	}
	if err == nil {
		c.of = found
	} else if s.Format == cli.FormatTable || s.Format == cli.FormatWide {
		s.Say("EMPTY-IN is not known: %s", cli.OneLineOf(err))
	}
	return nil
}

// emptyIn returns the seconds until the free accounts of a pool are used up; nil if that is unknown, if none
// was claimed, and for a shared pool.
func (c *claims) emptyIn(p *PoolView) *int64 {
	n := c.of[p.Pool]
	if n == 0 || p.Free.Unknown || p.Shared {
		return nil
	}
	seconds := int64(c.window.Seconds() / float64(n) * float64(p.Free.N))
	return &seconds
}

// roughly returns a duration in one unit, rounded down: seconds, minutes, from an hour hours, from two days days. It
// returns "now" if the duration is not positive.
func roughly(d time.Duration) string {
	switch {
	case d <= 0:
		return "now"
	case d < time.Minute:
		return fmt.Sprintf("%ds", int(d.Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%dm", int(d.Minutes()))
	case d < 2*cli.Day:
		return fmt.Sprintf("%dh", int(d.Hours()))
	default:
		return fmt.Sprintf("%dd", int(cli.InDays(d)))
	}
}
