package streams

import (
	"errors"
	"fmt"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// A replicated stream answers 10164 where a single one answers 10071.
func TestWrongLastSequence(t *testing.T) {
	t.Parallel()
	for err, want := range map[error]bool{
		fmt.Errorf("nats: %w", &jetstream.APIError{ErrorCode: 10071}): true,
		fmt.Errorf("nats: %w", &jetstream.APIError{ErrorCode: 10164}): true,
		fmt.Errorf("nats: %w", &jetstream.APIError{ErrorCode: 10077}): false,
		errors.New("wrong last sequence: 7"):                          false,
		nil:                                                           false,
	} {
		if got := WrongLastSequence(err); got != want {
			t.Errorf("%v: %t", err, got)
		}
	}
}

func TestRefused(t *testing.T) {
	t.Parallel()
	for err, want := range map[error]bool{
		fmt.Errorf("storing: %w", nats.ErrMaxPayload):                 true,
		fmt.Errorf("nats: %w", &jetstream.APIError{ErrorCode: 10054}): true,
		fmt.Errorf("nats: %w", &jetstream.APIError{ErrorCode: 10097}): true,
		fmt.Errorf("nats: %w", &jetstream.APIError{ErrorCode: 10077}): false,
		nats.ErrNoResponders: false,
		nil:                  false,
	} {
		if got := Refused(err); got != want {
			t.Errorf("%v: %t", err, got)
		}
	}
}
