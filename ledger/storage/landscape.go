package storage

import (
	"context"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/hap-worker/hap-worker/engine"
)

// MetadataLandscape is the key in the metadata of a ledger under which the landscape of its replies is recorded.
// It does not change how the stream behaves.
const MetadataLandscape = "hap-landscape"

// LandscapeOf returns the landscape that the metadata of a ledger names, and whether it names one.
// Error: engine.ErrNoLandscape if the value cannot be read.
func LandscapeOf(c jetstream.StreamConfig) (l engine.Landscape, found bool, err error) {
	text, found := c.Metadata[MetadataLandscape]
	if !found {
		return engine.Landscape{}, false, nil
	}
	l, err = engine.ParseLandscape(text)
	return l, err == nil, err
}

// Landscape returns the landscape that the ledger belongs to, and whether one is recorded. Errors:
// engine.ErrNoLandscape if the record cannot be read, otherwise the server's.
func (l *Ledger) Landscape(ctx context.Context) (landscape engine.Landscape, found bool, err error) {
	metadata, err := l.streams.Metadata(ctx, l.stream())
	if err != nil {
		return engine.Landscape{}, false, err
	}
	return LandscapeOf(jetstream.StreamConfig{Metadata: metadata})
}

// SetLandscape records the landscape in the ledger's metadata, and replaces a recorded one. It sends
// the rest of the stream's configuration back unchanged, including fields of newer servers. Of concurrent
// calls the last one wins. Errors: engine.ErrNoLandscape if the landscape cannot be recorded,
// otherwise the server's. A worker without the right to change the stream gets a time-out.
func (l *Ledger) SetLandscape(ctx context.Context, landscape engine.Landscape) error {
	if err := landscape.Check(); err != nil {
		return err
	}
	return l.streams.SetMetadata(ctx, l.stream(), MetadataLandscape, landscape.Text())
}
