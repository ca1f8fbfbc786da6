package streams

import "context"

// Progress is called while a stream is read. read is how many sequences the reader has passed, all is how
// many there are to pass. In the last call read equals all, even if the reading failed.
type Progress func(stream string, read, all uint64)

type progressKey struct{}

// Watched returns a context with which Walk, Each, Newest and WalkNewest call tell while they read, and at the
// end. They do not call it if there is nothing to read. Concurrent readings call it concurrently.
func Watched(ctx context.Context, tell Progress) context.Context {
	return context.WithValue(ctx, progressKey{}, tell)
}

// progressOf returns the Progress of ctx, nil if there is none.
func progressOf(ctx context.Context) Progress {
	tell, _ := ctx.Value(progressKey{}).(Progress)
	return tell
}

// watch wraps visit so that it reports the progress of reading from after to last. The caller calls
// end when the reading ends.
func watch(ctx context.Context, stream string, after, last uint64, visit func(Message) error) (watched func(Message) error, end func()) {
	tell := progressOf(ctx)
	if tell == nil || last <= after {
		return visit, func() {}
	}
	all := last - after
	return func(msg Message) error {
			if read := msg.Sequence - after; read < all { // a stream grows while it is read
				tell(stream, read, all)
			}
			return visit(msg)
		}, func() {
			tell(stream, all, all)
		}
}
