package access

import (
	"crypto/sha256"
	"maps"
	"net/netip"
	"sync"
	"time"
)

const (
	maxFailures  = 10              // failed logins that one address may make in a row
	perFailure   = 6 * time.Second // time after which one more login may fail
	maxAddresses = 1024            // addresses with an allowance each; all others share one
	maxLogins    = 64              // successful logins that are remembered
	warnEvery    = time.Minute
)

// attempts limits failed logins, so that a password cannot be found by trying. Each address
// has an allowance. Behind an Ingress, all users have the address of the Ingress. A login
// that succeeded recently is therefore always checked, however many others have failed.
type attempts struct {
	now  func() time.Time
	warn func(string)

	mu     sync.Mutex
	by     map[netip.Prefix]*allowance
	rest   allowance
	right  map[[sha256.Size]byte]bool // digests of credentials
	warned time.Time
}

// allowance is the number of logins that may still fail, at a point in time.
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

// result is how the check of a login ended.
type result int

const (
	succeeded result = iota
	failed
	undecided // the ID token has expired, or the issuer's metadata or keys could not be read
)

// begin takes one attempt from the allowance of the address; a credential that is remembered needs none. If none
// is left, it returns how long to wait, and the caller must not check the login. Otherwise wait is 0, and the
// caller checks the login and calls ended with the result. Only a failed login uses up its attempt, and only a
// successful one is remembered.
func (a *attempts) begin(credential string, from netip.Prefix) (ended func(result), wait time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	digest := sha256.Sum256([]byte(credential))
	if a.right[digest] {
		return func(how result) {
			if how == failed { // the secret or the issuer's key has changed since the last login
				a.end(digest, nil, how)
			}
		}, 0
	}
	mine, now := a.of(from), a.now()
	mine.refill(now)
	if mine.left < 1 {
		if now.Sub(a.warned) >= warnEvery {
			a.warned = now
			a.warn("too many failed logins to the operations page; logins from " + from.String() + " have to wait")
		}
		return nil, time.Duration((1 - mine.left) * float64(perFailure))
	}
	mine.left--
	return func(how result) { a.end(digest, mine, how) }, 0
}

func (a *attempts) end(digest [sha256.Size]byte, mine *allowance, how result) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if how == failed {
		delete(a.right, digest)
		return
	}
	mine.left = min(mine.left+1, maxFailures)
	if how == undecided {
		return
	}
	a.keep(digest)
}

// remember remembers a credential that succeeded without begin: the ID token of a login at the issuer.
func (a *attempts) remember(credential string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.keep(sha256.Sum256([]byte(credential)))
}

func (a *attempts) keep(digest [sha256.Size]byte) {
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

// prefixOf returns the network that shares one allowance: an IPv4 address, or the /64 network
// of an IPv6 address.
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
