package observe

import (
	"log/slog"
	"time"
)

// Load is the current load of a worker.
type Load struct {
	Queued     []Queued
	Flows      int       // pairs of a tenant and a class that have queued events
	Slow       int       // events that wait for Gardener and do not count toward worker.concurrency
	HandedBack int64     // events that went back to the stream because the queue was full, since the start
	Circuits   []Circuit // all open circuits, and a closed one for each dependency that has no open one
}

// Circuit is the circuit breaker of a dependency. While it is open, one call a second is made; events that
// need the dependency wait, or are answered without it.
type Circuit struct {
	Dependency string // a bulkhead.Dependency
	Pool       string // "" if all pools share it
	Open       bool
	Err        error     // the latest failure
	Since      time.Time // when it opened; set only for open circuits of a Load
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
	Offset time.Duration // by how much its clock is ahead of this machine's
}

// Queued is the number of queued events of a class.
type Queued struct {
	Class  string
	Events int
}
