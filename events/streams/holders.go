package streams

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/nats-io/nats.go/jetstream"
)

// codeSubjectsOverlap is the server's code for a new stream whose subjects another stream has;
// jetstream has no name for it.
const codeSubjectsOverlap = 10065

func overlaps(err error) bool {
	api, ok := errors.AsType[*jetstream.APIError](err)
	return ok && api.ErrorCode == codeSubjectsOverlap
}

// overlapped returns the error for a stream that the server refused to create because other streams have subjects of
// want. It names these streams or, if it cannot list them, the command that does.
func overlapped(ctx context.Context, js jetstream.JetStream, want *jetstream.StreamConfig, refused error) error {
	ctx, cancel := Bounded(ctx, js)
	defer cancel()
	holders := map[string]string{}
	for _, subject := range want.Subjects {
		list := js.ListStreams(ctx, jetstream.WithStreamListSubject(subject))
		for info := range list.Info() {
			e := existingStream(info)
			holders[info.Config.Name] = fmt.Sprintf("%s has the subjects %s and is %s (nats %s)", e.what, listed(info.Config.Subjects), e.whose, fmt.Sprintf(e.command, "info"))
		}
		if list.Err() != nil { // mostly a missing permission, which shows as a time-out
			break
		}
	}
	if len(holders) == 0 {
		return fmt.Errorf("stream %s cannot be created: a stream of another name has subjects like %s; to see which, with the right to list streams: nats stream ls --subject '%s': %w",
			want.Name, listed(want.Subjects), want.Subjects[0], refused)
	}
	return fmt.Errorf("stream %s cannot be created: %s; take the subjects from it, or give the workers another nats.prefix or another NATS account: %w",
		want.Name, some(holders), refused)
}

// occupied returns an error that names the consumers of a work queue. Because of them the server refused
// the workers' consumer.
func occupied(ctx context.Context, js jetstream.JetStream, stream, name string, refused error) error {
	ctx, cancel := Bounded(ctx, js)
	defer cancel()
	holders := map[string]string{}
	if s, err := js.Stream(ctx, stream); err == nil {
		list := s.ListConsumers(ctx)
		for info := range list.Info() {
			e := existingConsumer(info)
			holders[info.Name] = fmt.Sprintf("consumer %s is %s (nats %s; if it may go: nats %s)", info.Name, e.whose, fmt.Sprintf(e.command, "info"), fmt.Sprintf(e.command, "rm"))
		}
	}
	if len(holders) == 0 {
		return fmt.Errorf("consumer %s of stream %s cannot be created: a consumer of another name has its messages; to see which, with the right to list consumers: nats consumer ls %s: %w", name, stream, stream, refused)
	}
	return fmt.Errorf("consumer %s of stream %s cannot be created: another one has its messages: %s: %w", name, stream, some(holders), refused)
}

// mostHolders is how many holders an error names.
const mostHolders = 3

// some joins the texts of the first mostHolders holders in the order of their names, and says how many more there
// are.
func some(holders map[string]string) string {
	names := slices.Sorted(maps.Keys(holders))
	texts := make([]string, 0, mostHolders)
	for _, name := range names[:min(len(names), mostHolders)] {
		texts = append(texts, holders[name])
	}
	if more := len(names) - len(texts); more > 0 {
		texts = append(texts, fmt.Sprintf("and %d more", more))
	}
	return strings.Join(texts, "; ")
}
