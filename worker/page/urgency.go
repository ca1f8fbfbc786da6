package page

import (
	"math"
	"time"

	"github.com/hap-worker/hap-worker/engine/account"
)

// urgency is how soon an operator should look at a pool.
type urgency int

const (
	out     urgency = iota // a request waits, or no tenant can claim an account
	unclear                // it is not built, or its accounts or queue could not be read
	low                    // few accounts are free, it will run out soon, or it is paused
	well
)

const (
	// soon is the time within which a pool must run out to count as low: time to order accounts.
	soon = 24 * time.Hour
	// fewest: a pool that is not shared is low if less than 1/fewest of its accounts are free.
	fewest = 10
)

// Class is the CSS class of the urgency.
func (u urgency) Class() string { return [...]string{"out", "unclear", "low", "well"}[u] }

// Urgency classifies the pool.
func (p *pool) Urgency() urgency {
	free := p.counts[account.Free]
	switch {
	case p.Waiting.More() > 0 || len(p.Waiting.First) > 0 || p.Empty():
		return out
	case !p.Known() || !p.Waiting.Known:
		return unclear
	case p.Status.Paused, !p.Shared && (p.runsOut(soon) || free*fewest < p.Accounts()):
		return low
	default:
		return well
	}
}

// Word describes the urgency, "" for a pool that is well.
func (p *pool) Word() string {
	switch u := p.Urgency(); {
	case u == out && p.Empty():
		return "none free"
	case u == out:
		return "requests wait"
	case p.Unread:
		return "not read"
	case !p.Status.Built:
		return "not built"
	case u == unclear:
		return "unknown"
	case p.Status.Paused:
		return "paused"
	case u == low:
		return "runs low"
	default:
		return ""
	}
}

// runsOut reports whether, by the forecast, no account can be claimed after the time within.
func (p *pool) runsOut(within time.Duration) bool {
	return p.forecast && !math.IsInf(p.left, 1) && p.left < within.Seconds()
}

// EmptyIn is the time until no account can be claimed, if claims go on at the recent rate. It is "" for a
// shared or empty pool, and if no tenant claims. It is unread if the pool is not Known or has no forecast.
func (p *pool) EmptyIn() string {
	switch {
	case p.Shared || p.Empty():
		return ""
	case !p.forecast || !p.Known():
		return string(unread)
	case math.IsInf(p.left, 1):
		return ""
	default:
		return roughly(time.Duration(math.Min(p.left, 1e9)) * time.Second)
	}
}

// roughly writes a duration with one unit, or "years" from 1,000 days on.
func roughly(d time.Duration) string {
	switch {
	case d < 2*time.Minute:
		return many(int(d.Seconds()), "second")
	case d < 2*time.Hour:
		return many(int(d.Minutes()), "minute")
	case d < 48*time.Hour:
		return many(int(d.Hours()), "hour")
	case d < 1000*24*time.Hour:
		return many(int(d.Hours()/24), "day")
	default:
		return "years"
	}
}
