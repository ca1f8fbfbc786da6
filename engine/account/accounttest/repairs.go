package accounttest

import (
	"context"
	"errors"
	"strings"

	"github.com/hap-worker/hap-worker/engine/account"
)

// repairing runs a command of a repair, and reports whether the line is one: recount BINDING, drop-adopted RUNTIME
// BINDING, doubt BINDING g=N, drain-idle BINDING g=N, raise seq=N, release-unchanged RUNTIME, and restore RUNTIME.
// release-unchanged has a line of input, the runtime's record as it was. restore has three: the same (or none), the
// runtime's new record, and the record for a binding that has none.
func (s *Story) repairing(ctx context.Context, l line) (string, bool, error) {
	var ok bool
	var err error
	switch l.d.Cmd {
	case "recount":
		ok, err = s.m.Recount(ctx, l.pool(), l.name(0))
	case "drop-adopted":
		ok, err = s.m.DropAdopted(ctx, l.pool(), l.name(0), l.name(1))
	case "doubt":
		ok, err = s.m.Doubt(ctx, l.pool(), l.name(0), l.number("g"))
	case "drain-idle":
		ok, err = s.m.DrainIdle(ctx, l.pool(), l.name(0), l.number("g"))
	case "raise":
		ok, err = s.m.Raise(ctx, l.pool(), l.number("seq"))
	case "release-unchanged":
		ok, err = s.m.ReleaseUnchanged(ctx, l.pool(), l.name(0), parseRuntime(strings.Fields(l.d.Input)))
	case "restore":
		ok, err = s.restore(ctx, l)
	default:
		return "", false, nil
	}
	return yes(ok), true, err
}

func (s *Story) restore(ctx context.Context, l line) (bool, error) {
	rows := strings.Split(strings.TrimSpace(l.d.Input), "\n")
	if len(rows) != 3 {
		return false, errors.New("restore has three lines")
	}
	var was account.Runtime
	if rows[0] != "none" {
		was = parseRuntime(strings.Fields(rows[0]))
	}
	return s.m.Restore(ctx, l.pool(), l.name(0), was, parseRuntime(strings.Fields(rows[1])), parseRecord(strings.Fields(rows[2])))
}
