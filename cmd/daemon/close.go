package daemon

import (
	"time"

	"github.com/nats-io/nats.go"
)

// close stops the watches and closes the connections of the parts that are connected so far.
func (d *daemon) close() {
	p := &d.parts
	if p.nats != nil {
		d.closeNATS(p.nats)
	}
	if p.policy != nil {
		p.policy.Stop()
	}
	if p.ipam != nil {
		p.ipam.Stop()
	}
	if p.gardener != nil {
		p.gardener.Stop()
	}
	if p.counters != nil {
		if err := p.counters.Close(); err != nil {
			d.log.Debug("could not close the connections to Redis", "error", err)
		}
	}
}

// closeNATS closes the connection. If it is connected to a server, closeNATS first waits up to 5 s until the
// pending messages have reached that server.
func (d *daemon) closeNATS(nc *nats.Conn) {
	defer nc.Close()
	changed := nc.StatusChanged(nats.CLOSED)
	if err := nc.Drain(); err != nil {
		return
	}
	select {
	case <-changed:
	case <-time.After(5 * time.Second):
	}
}
