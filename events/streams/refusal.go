package streams

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// mostText bounds, in bytes, each text of another application that an error contains.
const mostText = 200

// fault is a setting that makes an existing stream or consumer unusable for workers.
type fault struct {
	found bool
	what  string // the setting as it is, as it must be, and what it leads to
	flag  string // of the nats command that changes the setting; "" if only deletion helps
}

// existing is a stream or a consumer that exists, as an error shows it.
type existing struct {
	what     string // as in "stream HAP_EVENTS"
	command  string // of nats, as in "stream %s HAP_EVENTS"
	whose    string
	deletion string // what a deletion would delete
}

// refuse returns one error for all faults that were found, nil if there are none. It says whose the
// stream or consumer is, so that no operator edits or deletes what belongs to others, and which
// command helps.
func (e existing) refuse(faults []fault) error {
	faults = slices.DeleteFunc(faults, func(f fault) bool { return !f.found })
	if len(faults) == 0 {
		return nil
	}
	var what, flags []string
	for _, f := range faults {
		what = append(what, f.what)
		if f.flag != "" {
			flags = append(flags, f.flag)
		}
	}
	cure := "to change that: nats " + fmt.Sprintf(e.command, "edit") + " " + strings.Join(flags, " ")
	if len(flags) < len(faults) {
		cure = "no edit changes all of that: if " + e.deletion + " may go, nats " + fmt.Sprintf(e.command, "rm") + ", and a worker with nats.manage: true creates it; if not, give the workers another NATS account"
	}
	return fmt.Errorf("%s cannot be the workers': %s. It is %s; to look at it: nats %s; %s",
		e.what, strings.Join(what, "; "), e.whose, fmt.Sprintf(e.command, "info"), cure)
}

func existingStream(info *jetstream.StreamInfo) existing {
	name := info.Config.Name
	return existing{
		what: "stream " + name, command: "stream %s " + name, deletion: fmt.Sprintf("it with its %d messages", info.State.Msgs),
		whose: whose(info.Config.Description, info.Config.Metadata, info.Created),
	}
}

func existingConsumer(info *jetstream.ConsumerInfo) existing {
	return existing{
		what: "consumer " + info.Name + " of stream " + info.Stream, command: "consumer %s " + info.Stream + " " + info.Name, deletion: "it",
		whose: whose(info.Config.Description, info.Config.Metadata, info.Created),
	}
}

// whose returns a text from which an operator may recognize the owner of a stream or a consumer: description,
// metadata and time of creation.
func whose(description string, metadata map[string]string, created time.Time) string {
	text := "without description"
	if description != "" {
		text = "described as " + strconv.Quote(OneLine(description, mostText))
	}
	var entries []string
	for _, key := range slices.Sorted(maps.Keys(metadata)) {
		if !strings.HasPrefix(key, "_nats.") { // the server's
			entries = append(entries, key+"="+metadata[key])
		}
	}
	if len(entries) > 0 {
		text += ", with the metadata " + OneLine(strings.Join(entries, " "), mostText)
	}
	return text + ", created " + created.UTC().Format(time.RFC3339)
}

// listed shows subjects that others may have chosen.
func listed(subjects []string) string { return OneLine(fmt.Sprint(subjects), mostText) }

// uncovered returns the subjects that no single pattern covers.
func uncovered(subjects, patterns []string) []string {
	var left []string
	for _, subject := range subjects {
		if !slices.ContainsFunc(patterns, func(pattern string) bool { return covers(pattern, subject) }) {
			left = append(left, subject)
		}
	}
	return left
}

// covers reports whether pattern matches everything that subject matches. Both may have wildcards.
func covers(pattern, subject string) bool {
	want, have := strings.Split(subject, "."), strings.Split(pattern, ".")
	for i, token := range have {
		switch {
		case i >= len(want):
			return false
		case token == ">":
			return true
		case want[i] == ">", token != "*" && token != want[i]:
			return false
		}
	}
	return len(have) == len(want)
}
