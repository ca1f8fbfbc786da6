package observe

import (
	"log/slog"
	"time"
)

// Load says what a worker has in hand.
type Load struct {
	Queued     []Queued
	Flows      int       // tenants and classes with queued events
	Slow       int       // events that wait for Gardener and take no place
	HandedBack int64     // events that the full queue gave back, since the worker began
	Circuits   []Circuit // those that are open, and one for each dependency without any
}

// Circuit is a part of the world that fails or hangs. While it is open, calls of it are not
// made but for one a second, and what needs it waits, or is answered without it.
type Circuit struct {
	Dependency string // a bulkhead.Dependency
	Pool       string // "" where all pools share it
	Open       bool
	Err        error // the latest failure
}

// LogValue groups what a log line needs.
func (c Circuit) LogValue() slog.Value {
	attrs := []slog.Attr{slog.String("dependency", c.Dependency)}
	if c.Pool != "" {
		attrs = append(attrs, slog.String("pool", c.Pool))
	}
	if c.Err != nil {
		attrs = append(attrs, slog.String("error", c.Err.Error()))
	}
	return slog.GroupValue(attrs...)
}

// Clock is a measurement of a store's clock.
type Clock struct {
	Store  string        // nats or redis
	Offset time.Duration // how far its clock is ahead of this machine's
}

// Queued is how many events of a class are taken and not begun.
type Queued struct {
	Class  string
	Events int
}
