package memory

import "github.com/hap-worker/hap-worker/engine/account/inmemory"

// Counters implement the account protocol for all pools, like package counters in Redis.
type Counters = inmemory.Counters

// NewCounters returns counters in which nothing is built.
func NewCounters() *Counters { return inmemory.NewCounters() }
