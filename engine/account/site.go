package account

import (
	"maps"
	"time"
)

// site is what a pool and a bucket of the directory have in common: an epoch
// without which nothing is decided, a sequence, and the token of who rebuilds.
type site struct {
	epoch    string // "" is not built
	sequence int64
	token    string
	since    time.Time
}

// next numbers a decision.
func (s *site) next() int64 {
	s.sequence++
	return s.sequence
}

// BeginRebuild claims the rebuild under a token that was never used before
// (rule 13a) and reports whether it is the caller's. It is not where nothing is
// to be rebuilt, and where another began or renewed less than lease ago. The
// lease only saves work: of several that rebuild, the one whose token is there
// at the end installs.
func (s *site) BeginRebuild(token string, now time.Time, lease time.Duration) bool {
	if s.epoch != "" {
		return false
	}
	if s.token != "" && s.token != token && now.Sub(s.since).Abs() < lease {
		return false
	}
	s.token, s.since = token, now
	return true
}

// RenewRebuild extends the lease and reports whether the rebuild is still the
// token's; if not, the caller gives up.
func (s *site) RenewRebuild(token string, now time.Time) bool {
	if s.epoch != "" || s.token != token {
		return false
	}
	s.since = now
	return true
}

// install gives the site its epoch (rule 13e): only if it is not built and the
// token is still this one. Repeated after success it reports true and changes nothing.
func (s *site) install(token string, sequence int64) (fresh, installed bool) {
	if s.epoch != "" || s.token != token || token == "" {
		return false, s.epoch == token && token != ""
	}
	s.epoch, s.sequence = token, sequence
	s.token, s.since = "", time.Time{}
	return true, true
}

// Discard takes the epoch away, as a restart of Redis does and an operator's
// rebuild: nothing is decided until the site is built anew. It reports whether
// it was built.
func (s *site) Discard() bool {
	built := s.epoch != ""
	s.epoch = ""
	return built
}

// Install makes the snapshot the pool's records (rule 13e) and reports whether
// the pool is built from it. It stays paused if it was.
func (p *Pool) Install(token string, snapshot Snapshot) bool {
	fresh, installed := p.install(token, snapshot.Sequence)
	if fresh {
		p.bindings, p.runtimes, p.turns = map[string]Record{}, map[string]Runtime{}, map[string]int64{}
		for name, rec := range snapshot.Bindings {
			p.put(name, rec)
		}
		maps.Copy(p.runtimes, snapshot.Runtimes)
	}
	return installed
}
