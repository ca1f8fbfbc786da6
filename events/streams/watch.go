package streams

import "context"

// Progress is told how far a reading of a stream has come: how many of the sequences that
// it goes through are behind it. The last call of a reading has read equal to all, also
// where the reading failed.
type Progress func(stream string, read, all uint64)

type progressKey struct{}

// Watched returns a context whose readings by Walk, Each and Newest tell how far they are,
// message by message. Several may go on at once.
func Watched(ctx context.Context, tell Progress) context.Context {
	return context.WithValue(ctx, progressKey{}, tell)
}

// progressOf returns whom a reading tells; nil for none.
func progressOf(ctx context.Context) Progress {
	tell, _ := ctx.Value(progressKey{}).(Progress)
	return tell
}

// watch makes visit tell of a reading of what comes after a sequence, up to last, and
// returns it with what ends the reading.
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
