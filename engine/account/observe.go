package account

// Observe lets a record follow its label where nobody is on the binding (rule
// 10), for labels that were written by somebody else or whose writer died
// before it told Redis. It never marks anything dirty. ErrNotBuilt.
func (p *Pool) Observe(l Label) (Observation, error) {
	if p.epoch == "" {
		return Observation{}, ErrNotBuilt
	}
	before := p.Binding(l.Binding)
	after, change := before.follow(l)
	if change != "" {
		p.put(l.Binding, after)
	}
	return Observation{Change: change, Before: before, Record: after}, nil
}

// follow gives the record after its label was seen.
func (rec Record) follow(l Label) (Record, Change) {
	unclaimed := l.Tenant == "" && !l.Dirty
	switch {
	case rec.State == Free && (unclaimed || rec.Count > 0):
		// Runtimes that no label accounts for: their binding is nobody's to adopt.
	case rec.State == Free:
		return rec.adopted(l)
	case !rec.loose():
	case l.Dirty && rec.State != Dirtying && !rec.foreign(l):
		if l.Generation >= rec.Generation || !rec.Confirmed {
			rec.State, rec.Generation, rec.Pristine = Dirtying, l.Generation, false
			return rec, BecameDirtying
		}
	case unclaimed:
		if l.Generation >= rec.followsFrom() {
			return Record{State: Free}, BecameFree
		}
	case rec.overtaken(l):
		return rec.adopted(l)
	}
	return rec, ""
}

// followsFrom is the generation that an unclaimed label needs at least. An older
// one is of before this claim, which has not written its own yet. An idle claim
// writes none before somebody comes to it: without the one less, an account that
// was adopted from a cache which lagged behind its release would be nobody's for good.
func (rec Record) followsFrom() int64 {
	if rec.idle() && !rec.Confirmed {
		return rec.Generation - 1
	}
	return rec.Generation
}

// foreign reports whether the label names another tenant.
func (rec Record) foreign(l Label) bool { return l.Tenant != "" && l.Tenant != rec.Tenant }

// overtaken reports whether the label is of a later claim than the record.
func (rec Record) overtaken(l Label) bool {
	if rec.foreign(l) {
		return l.Generation >= rec.Generation || !rec.Confirmed
	}
	return l.Tenant != "" && !l.Dirty && l.Generation > rec.Generation
}

// adopted is the record of a label that Redis did not know. A clean one is an
// idle claim of the next generation: its label is written before anyone is
// answered, which fences whoever else may still write it.
func (rec Record) adopted(l Label) (Record, Change) {
	now := Record{State: InUse, Tenant: l.Tenant, Generation: l.Generation + 1, Count: rec.Count}
	if l.Dirty {
		now.State, now.Generation = Dirtying, l.Generation
	}
	return now, BecameAdopted
}
