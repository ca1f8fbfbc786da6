package daemon

import (
	"context"
	"time"

	"github.com/hap-worker/hap-worker/worker/filewatch"
)

// followFile calls changed whenever the content of the file or directory at path changes, until
// ctx ends. seen is the checksum of the content at the start.
func (d *daemon) followFile(ctx context.Context, path string, seen uint64, changed func()) {
	d.running.Go(func() {
		err := filewatch.Watch(ctx, path, seen, changed, func(err error) {
			d.log.Warn("changes of a file may be noticed late", "source", path, "error", err)
		})
		if err != nil {
			d.log.Error("cannot watch a file; restart the worker after changing it", "source", path, "error", err)
		}
	})
}

// firstListWithin is how long a worker that starts waits for the first list of an object without which it can serve:
// an API server that does not answer, or a missing right, must not keep it from the requests that do not need the object.
const firstListWithin = 10 * time.Second

// firstList waits up to firstListWithin until synced returns nil. Otherwise it logs a warning, and the worker starts as
// if the object did not exist; the watch goes on. It returns an error only if ctx ends.
func (d *daemon) firstList(ctx context.Context, object string, synced func(context.Context) error) error {
	within, cancel := context.WithTimeout(ctx, firstListWithin)
	defer cancel()
	err := synced(within)
	if err != nil && ctx.Err() == nil {
		d.log.Warn("starts without an object that cannot be read, as if it did not exist; takes it once it can", "source", object, "error", err)
		return nil
	}
	return err
}
