package daemon

import (
	"context"
	"sync/atomic"

	"github.com/hap-worker/hap-worker/worker/notes"
)

// newNotes returns the writer of Events about bindings, which runs until ctx ends. It returns nil
// if these Events are switched off, and for a shadow.
func (d *daemon) newNotes(ctx context.Context) *notes.Notes {
	if !d.cfg.Gardener.Events || d.shadowed() {
		return nil
	}
	var failing atomic.Bool // a failure is logged once, until a write succeeds
	n := notes.New(notes.Options{
		Writer: d.parts.gardener,
		Known: func(binding string) bool {
			_, known := d.parts.gardener.Cached(binding)
			return known
		},
		Told: func(result notes.Result, err error) {
			d.tel.Metrics.Note(result)
			switch {
			case result == notes.Failed && !failing.Swap(true):
				d.log.Warn("could not write an Event about a binding, which is dropped; later ones are tried", "error", err)
			case result == notes.Written:
				failing.Store(false)
			}
		},
	})
	d.running.Go(func() { n.Run(ctx) })
	return n
}
