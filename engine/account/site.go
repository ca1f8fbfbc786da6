package account

import "time"

// site has the fields that pools and buckets of the directory share: the epoch, without which nothing is
// decided, the sequence, and the token of the worker that rebuilds.
type site struct {
	epoch    string // "" is not built
	sequence int64
	token    string
	since    time.Time
	over     bool // the token was written before the server's last start
}

// next numbers a decision.
func (s *site) next() int64 {
	s.sequence++
	return s.sequence
}

// BeginRebuild claims the rebuild under a token that was never used before (rule 13a), and reports whether
// the caller may rebuild. The caller may not if the site is built, if another worker began or renewed its
// rebuild less than lease ago on this run of the server, or if this token was written on an earlier run. The
// lease only saves work: of several workers that rebuild, only the one whose token is stored at the end
// installs.
func (s *site) BeginRebuild(token string, now time.Time, lease time.Duration) bool {
	switch {
	case s.epoch != "":
		return false
	case s.token == token && s.over:
		return false
	case s.token != "" && s.token != token && !s.over && now.Sub(s.since).Abs() < lease:
		return false
	}
	s.token, s.since, s.over = token, now, false
	return true
}

// RenewRebuild extends the lease to begin at now, and reports whether the rebuild is still the token's. If
// it is not, nothing changes, and the caller stops its rebuild.
func (s *site) RenewRebuild(token string, now time.Time) bool {
	if s.epoch != "" || s.token != token || s.over {
		return false
	}
	s.since = now
	return true
}

// install sets the site's epoch and sequence (rule 13e), but only if the site is not built, its rebuild token
// is still this one, and that token was written since the server last started. fresh reports whether this
// call set them, installed whether this call or an earlier one with the same token did.
func (s *site) install(token string, sequence int64) (fresh, installed bool) {
	if s.epoch != "" || s.token != token || token == "" || s.over {
		return false, s.epoch == token && token != ""
	}
	s.epoch, s.sequence = token, sequence
	s.token, s.since = "", time.Time{}
	return true, true
}

// Discard removes the epoch, as an operator's rebuild does: nothing is decided until the site is built anew.
// It reports whether it was built.
func (s *site) Discard() bool {
	built := s.epoch != ""
	s.epoch = ""
	return built
}

// Depose discards the site if epoch is still its epoch (rule 15), and reports whether it did.
func (s *site) Depose(epoch string) bool { return s.epoch == epoch && s.Discard() }

// Restart models a restart of Redis that keeps the records: nothing is decided until the site is built anew,
// and a rebuild that began before the restart cannot install.
func (s *site) Restart() {
	s.Discard()
	s.over = s.token != ""
}

// Install replaces the pool's records by the snapshot (rule 13e) if the pool is not built and its rebuild is
// still the token's; otherwise it changes nothing. It reports whether this call or an earlier one with the
// token built the pool. A paused pool stays paused.
func (p *Pool) Install(token string, snapshot Snapshot) bool {
	fresh, installed := p.install(token, snapshot.Sequence)
	if fresh {
		p.bindings, p.runtimes, p.turns = map[string]Record{}, map[string]Runtime{}, map[string]int64{}
		p.index = newIndex()
		for name, rec := range snapshot.Bindings {
			p.put(name, rec)
		}
		for id, rt := range snapshot.EachRuntime() {
			p.remember(id, rt)
		}
	}
	return installed
}
