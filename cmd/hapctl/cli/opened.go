package cli

import (
	"sync"

	"github.com/nats-io/nats.go"

	"github.com/hap-worker/hap-worker/counters"
	"github.com/hap-worker/hap-worker/gardener"
)

// opened are the connections of a command, one to each server. They stay open until the command ends, so that
// further requests to a server use the same connection.
type opened struct {
	nats  *nats.Conn
	redis *counters.Store

	gardener   *gardener.Client
	gardenerBy gardener.Options

	mu       sync.Mutex
	warnings []string // of Gardener, not shown yet
}

func (o *opened) close() {
	if o.nats != nil {
		o.nats.Close()
	}
	if o.redis != nil {
		_ = o.redis.Close() // nothing is lost by it
	}
}

func (o *opened) warn(text string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.warnings = append(o.warnings, text)
}

// untold returns the warnings since the last call.
func (o *opened) untold() []string {
	o.mu.Lock()
	defer o.mu.Unlock()
	warnings := o.warnings
	o.warnings = nil
	return warnings
}
