package page

import (
	"crypto/sha256"
	"maps"
	"net/http"
	"net/netip"
	"sync"
	"time"
)

const (
	maxFailures  = 10              // logins that may fail at once, for one address
	perFailure   = 6 * time.Second // after this one more may fail
	maxAddresses = 1024            // that are told apart; the others share one allowance
	maxLogins    = 64              // that were right and are remembered
	warnEvery    = time.Minute
)

// attempts bounds how often a login may fail, so that a password cannot be found by
// trying. The allowance belongs to an address. Behind an Ingress all have the Ingress's:
// who was right lately is therefore looked at whatever the others try.
type attempts struct {
	now  func() time.Time
	warn func(string)

	mu     sync.Mutex
	by     map[netip.Prefix]*allowance
	rest   allowance
	right  map[[sha256.Size]byte]bool // digests of Authorization headers
	warned time.Time
}

// allowance is how many more may fail as of a moment.
type allowance struct {
	left float64
	at   time.Time
}

func newAttempts(now func() time.Time, warn func(string)) *attempts {
	return &attempts{
		now: now, warn: warn, by: map[netip.Prefix]*allowance{}, right: map[[sha256.Size]byte]bool{},
		rest: allowance{maxFailures, now()},
	}
}

// begin takes an attempt from the allowance of who asks. With a wait above 0 nothing was
// taken, and the login must not be looked at. Else ended has to be told whether it failed.
func (a *attempts) begin(r *http.Request) (ended func(failed bool), wait time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	digest, from := sha256.Sum256([]byte(r.Header.Get("Authorization"))), prefixOf(r.RemoteAddr)
	if a.right[digest] {
		return func(failed bool) {
			if failed { // the password was changed meanwhile
				a.end(digest, nil, failed)
			}
		}, 0
	}
	mine, now := a.of(from), a.now()
	mine.refill(now)
	if mine.left < 1 {
		if now.Sub(a.warned) >= warnEvery {
			a.warned = now
			a.warn("too many logins to the operations page fail; those from " + from.String() + " have to wait")
		}
		return nil, time.Duration((1 - mine.left) * float64(perFailure))
	}
	mine.left--
	return func(failed bool) { a.end(digest, mine, failed) }, 0
}

func (a *attempts) end(digest [sha256.Size]byte, mine *allowance, failed bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if failed {
		delete(a.right, digest)
		return
	}
	mine.left = min(mine.left+1, maxFailures)
	if len(a.right) >= maxLogins {
		clear(a.right)
	}
	a.right[digest] = true
}

func (a *attempts) of(from netip.Prefix) *allowance {
	if mine := a.by[from]; mine != nil {
		return mine
	}
	now := a.now()
	if len(a.by) >= maxAddresses {
		maps.DeleteFunc(a.by, func(_ netip.Prefix, other *allowance) bool {
			other.refill(now)
			return other.left >= maxFailures
		})
	}
	if len(a.by) >= maxAddresses {
		return &a.rest
	}
	mine := &allowance{maxFailures, now}
	a.by[from] = mine
	return mine
}

func (l *allowance) refill(now time.Time) {
	l.left = min(l.left+float64(now.Sub(l.at))/float64(perFailure), maxFailures)
	l.at = now
}

// prefixOf is who is taken for one: an address, and of IPv6 the network that one host has.
func prefixOf(remote string) netip.Prefix {
	at, err := netip.ParseAddrPort(remote)
	if err != nil {
		return netip.Prefix{}
	}
	address, bits := at.Addr().Unmap().WithZone(""), 64
	if address.Is4() {
		bits = 32
	}
	return netip.PrefixFrom(address, bits).Masked()
}
