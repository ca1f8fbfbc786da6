package daemon

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// TestFirstListOfAnObject: an API that does not list an object holds the start back for some seconds only.
func TestFirstListOfAnObject(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		d := &daemon{log: slog.New(slog.NewTextHandler(&log, nil))}
		silent := func(ctx context.Context) error {
			<-ctx.Done()
			return ctx.Err()
		}
		begun := time.Now()
		if err := d.firstList(t.Context(), "IPAMConfig ipam", silent); err != nil || time.Since(begun) != firstListWithin {
			t.Errorf("after %s: %v", time.Since(begun), err)
		}
		if text := log.String(); !strings.Contains(text, "IPAMConfig ipam") || !strings.Contains(text, "level=WARN") {
			t.Errorf("logged %q", text)
		}
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		if err := d.firstList(ended, "IPAMConfig ipam", silent); err == nil {
			t.Error("a start that was ended goes on")
		}
	})
}
