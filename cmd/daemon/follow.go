package daemon

import (
	"context"

	"github.com/hap-worker/hap-worker/worker/filewatch"
)

// followFile calls changed whenever the file or directory at path is another than it
// was, seen being its sum at first, until ctx ends.
func (d *daemon) followFile(ctx context.Context, path string, seen uint64, changed func()) {
	d.running.Go(func() {
		err := filewatch.Watch(ctx, path, seen, changed, func(err error) {
			d.log.Warn("changes of a file may go unnoticed", "source", path, "error", err)
		})
		if err != nil {
			d.log.Error("a file cannot be watched; changes need a restart", "source", path, "error", err)
		}
	})
}
