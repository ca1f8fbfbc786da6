package account

// Observe updates a record from its label if the binding has no runtimes (rule 10). The label may come from
// another writer, or from a worker that died before it updated Redis. Observe changes only the record: it
// never writes a label. It returns ErrNotBuilt if the pool is not built.
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

// follow returns the record as the label changes it, and the change.
func (rec Record) follow(l Label) (Record, Change) {
	unclaimed := l.Tenant == "" && !l.Dirty
	switch {
	case rec.State == Free && (unclaimed || rec.Count > 0):
		// No label accounts for the binding's runtimes, so no tenant adopts the binding.
	case rec.State == Free:
		return rec.adopted(l)
	case !rec.loose():
	case l.Generation < rec.Generation && (rec.Confirmed || l.After != rec.Generation):
		// The label is older than this claim: a cache lags, or the claim has not written its label yet.
	case l.Dirty && !rec.foreign(l) && (rec.State != Dirtying || l.Generation < rec.Generation):
		rec.State, rec.Generation, rec.Pristine = Dirtying, l.Generation, false
		return rec, BecameDirtying
	case unclaimed:
		// Below its generation, the label is from before the claim. An idle claim has not written its label yet.
		if rec.idle() || l.Generation >= rec.Generation {
			return Record{State: Free}, BecameFree
		}
	case rec.overtaken(l):
		return rec.adopted(l)
	}
	return rec, ""
}

// AsksFor reports whether a caller that has the label from a cache should read it from Kubernetes itself:
// the record would follow this label if it had been read there. The record does not follow a cached label
// that is older than its claim: the cache may lag, or the claim has not written its label yet.
func (rec Record) AsksFor(l Label) bool {
	l.After = rec.Generation
	_, change := rec.follow(l)
	return change != ""
}

// foreign reports whether the label names another tenant.
func (rec Record) foreign(l Label) bool { return l.Tenant != "" && l.Tenant != rec.Tenant }

// overtaken reports whether the label, which follow has found not to be older, is of another claim than the
// record: of another tenant, or clean and of a later claim of the same tenant.
func (rec Record) overtaken(l Label) bool {
	return rec.foreign(l) || l.Tenant != "" && !l.Dirty && l.Generation > rec.Generation
}

// adopted returns the record for a label that Redis did not know. If the label is not dirty,
// the record is an idle claim of the next generation. A worker writes the label of that
// generation before it answers a request, and that write fences every other writer.
func (rec Record) adopted(l Label) (Record, Change) {
	now := Record{State: InUse, Tenant: l.Tenant, Generation: l.Generation + 1, Count: rec.Count}
	if l.Dirty {
		now.State, now.Generation = Dirtying, l.Generation
	}
	return now, BecameAdopted
}
