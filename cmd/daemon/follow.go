package daemon

import (
	"context"

	"github.com/hap-worker/hap-worker/worker/filewatch"
)

// followFile calls changed whenever the content of the file or directory at path changes, until
// ctx ends. seen is the checksum of the content at the start.
func (d *daemon) followFile(ctx context.Context, path string, seen uint64, changed func()) {
	d.running.Go(func() {
		err := filewatch.Watch(ctx, path, seen, changed, func(err error) {
			d.log.Warn("may not notice changes of a file", "source", path, "error", err)
		})
		if err != nil {
			d.log.Error("cannot watch a file; restart the worker after changing it", "source", path, "error", err)
		}
	})
}
