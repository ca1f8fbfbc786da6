package events

import (
	"context"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/hap-worker/hap-worker/engine"
)

// MetadataLandscape is the key of a ledger's metadata that says which landscape its
// replies are of. No setting of the stream depends on it.
const MetadataLandscape = "hap-landscape"

// LandscapeOf returns the landscape that the metadata of a ledger names, and whether it
// names one. The error is engine.ErrNoLandscape where it cannot be read.
func LandscapeOf(c jetstream.StreamConfig) (l engine.Landscape, found bool, err error) {
	text, found := c.Metadata[MetadataLandscape]
	if !found {
		return engine.Landscape{}, false, nil
	}
	l, err = engine.ParseLandscape(text)
	return l, err == nil, err
}

// Landscape returns the landscape that the ledger belongs to, and whether one is recorded.
// Errors: engine.ErrNoLandscape where the record cannot be read, else the server's.
func (l *Ledger) Landscape(ctx context.Context) (landscape engine.Landscape, found bool, err error) {
	metadata, err := l.streams.Metadata(ctx, l.stream())
	if err != nil {
		return engine.Landscape{}, false, err
	}
	return LandscapeOf(jetstream.StreamConfig{Metadata: metadata})
}

// SetLandscape records the landscape in the ledger's metadata, in the place of whatever
// is recorded. streams.Everything else of the stream's configuration is sent back as the server
// told it, fields of newer servers included. Several that set it at once do no harm:
// the last one stands. An error is the server's; one that has not the right to change
// the stream gets no answer, which is a time-out.
func (l *Ledger) SetLandscape(ctx context.Context, landscape engine.Landscape) error {
	if err := landscape.Check(); err != nil {
		return err
	}
	return l.streams.SetMetadata(ctx, l.stream(), MetadataLandscape, landscape.Text())
}
