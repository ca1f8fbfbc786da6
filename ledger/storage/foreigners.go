package storage

import "github.com/hap-worker/hap-worker/events"

// foreigners is the part of a reader that reports unreadable messages. tell may be nil.
type foreigners struct{ tell func(*events.Foreign) }

// OnForeign sets the function that is called with each unreadable message that a reader skips or visits
// as Foreign, each time that it reads the message. Call OnForeign before the first use.
func (f *foreigners) OnForeign(tell func(*events.Foreign)) { f.tell = tell }

// pass reports the *events.Foreign in err to tell and returns nil. It returns any other error unchanged.
func (f *foreigners) pass(err error) error {
	found, ok := events.ForeignOf(err)
	if !ok {
		return err
	}
	if f.tell != nil {
		f.tell(found)
	}
	return nil
}
