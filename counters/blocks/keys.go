package counters

// networkPlace names the ranges in errors. No pool has a colon in its name, so no
// pool's keys are among theirs.
const networkPlace = "net:"

// networkTag keeps all keys of the ranges on one slot.
func (s *Store) networkTag() string { return s.prefix + ":{" + networkPlace + "}:" }

// networkHead is the ranges' counterpart of a pool's meta. Its name is another, so
// that whoever lists pools does not find it.
func (s *Store) networkHead() string { return s.networkTag() + "head" }

// networkKeys are the KEYS of every script on ranges, in the order of its prelude.
func (s *Store) networkKeys() []string {
	return append([]string{s.networkHead()}, s.networkRecords(s.networkTag())...)
}

// networkStaging is where a rebuild under token puts what it will install.
func (s *Store) networkStaging(token string) []string {
	return s.networkRecords(s.networkTag() + "n:" + token + ":")
}

func (s *Store) networkRecords(tag string) []string {
	return []string{tag + "f", tag + "h", tag + "i", tag + "c", tag + "x", tag + "p"}
}
