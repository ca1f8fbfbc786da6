// Package shadows stores a shadow's data on NATS: the events that it takes in, and the comparisons of
// its decisions with KEB's choices.
package shadows

import (
	"context"
	"fmt"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/hap-worker/hap-worker/events"
	"github.com/hap-worker/hap-worker/events/streams"
)

// ComparisonResult says how a shadow's decision relates to KEB's choice.
type ComparisonResult string

// The results that are agreements, or inconclusive.
const (
	ResultSame       ComparisonResult = "same"       // the same account
	ResultEquivalent ComparisonResult = "equivalent" // another account, equally good: both new, or shared with as few clusters
	ResultFollowed   ComparisonResult = "followed"   // the same account, which the tenant had without a cluster: KEB may have labelled it for this runtime
	ResultNeither    ComparisonResult = "neither"    // the shadow refused the request, and there is no Shoot
	ResultLate       ComparisonResult = "late"       // the Shoot was there before the shadow decided: nothing was compared
)

// The results that are differences.
const (
	ResultOtherAccount   ComparisonResult = "other-account"   // another account of the pool: both the tenant's before, or shared and not equivalent
	ResultClaims         ComparisonResult = "claims"          // the shadow would claim an account, KEB took one that the tenant had
	ResultShares         ComparisonResult = "shares"          // the shadow would take an account that the tenant had, KEB claimed one
	ResultOtherPool      ComparisonResult = "other-pool"      // KEB's account is of another pool
	ResultOtherTenant    ComparisonResult = "other-tenant"    // KEB's account carries another tenant's name
	ResultNotAssigned    ComparisonResult = "not-assigned"    // the shadow refused the request or lets it wait, KEB assigned
	ResultNoCluster      ComparisonResult = "no-cluster"      // the shadow assigned, and there is no Shoot
	ResultUnknownAccount ComparisonResult = "unknown-account" // the Shoot uses no account of the landscape
)

// ComparisonResults lists all results, the differences last.
func ComparisonResults() []ComparisonResult {
	return []ComparisonResult{
		ResultSame, ResultEquivalent, ResultFollowed, ResultNeither, ResultLate,
		ResultOtherAccount, ResultClaims, ResultShares, ResultOtherPool, ResultOtherTenant,
		ResultNotAssigned, ResultNoCluster, ResultUnknownAccount,
	}
}

// Differs reports whether the result is a difference.
func (r ComparisonResult) Differs() bool {
	switch r {
	case ResultSame, ResultEquivalent, ResultFollowed, ResultNeither, ResultLate:
		return false
	default:
		return true
	}
}

// KEBChoice is the account that KEB chose, as the runtime's Shoot and the account's labels show it.
type KEBChoice struct {
	Shoot   string `json:"shoot"`
	Binding string `json:"binding,omitzero"`
	Pool    string `json:"pool,omitzero"`
	Tenant  string `json:"tenant,omitzero"` // that the label names
}

// Comparison is the outcome of one provision, as HAP_SHADOW_COMPARISONS keeps it.
type Comparison struct {
	Result     ComparisonResult `json:"result"`
	Message    string           `json:"message"`
	ComparedAt time.Time        `json:"comparedAt"`
	KEB        *KEBChoice       `json:"keb,omitempty"` // absent without a Shoot
	Reply      events.Reply     `json:"reply"`         // what the shadow would have answered, with its decision record
}

// Comparisons is the stream of the comparisons. It keeps the first comparison of each request.
type Comparisons struct {
	js       jetstream.JetStream
	subjects events.Subjects
}

// NewComparisons returns the comparisons under a shadow's subjects.
func NewComparisons(js jetstream.JetStream, subjects events.Subjects) *Comparisons {
	return &Comparisons{js: js, subjects: subjects}
}

// Add stores the comparison of a request unless there is one, and reports whether it did.
func (c *Comparisons) Add(ctx context.Context, compared Comparison) (bool, error) {
	data, err := json.Marshal(compared)
	if err != nil {
		return false, fmt.Errorf("encoding the comparison of %q: %w", compared.Reply.RequestID, err)
	}
	ctx, cancel := streams.Bounded(ctx, c.js)
	defer cancel()
	subject := c.subjects.Compared(compared.Reply.RuntimeID, compared.Reply.RequestID)
	_, err = c.js.PublishMsg(ctx, &nats.Msg{Subject: subject, Data: data},
		jetstream.WithExpectStream(events.StreamComparisons), jetstream.WithExpectLastSequencePerSubject(0))
	switch {
	case streams.WrongLastSequence(err):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("storing the comparison on %s: %w", subject, err)
	}
	return true, nil
}

// Each visits the comparisons, oldest first, until the stream has no more. It returns the first error
// of visit, and an error for a message that is no comparison.
func (c *Comparisons) Each(ctx context.Context, visit func(Comparison) error) error {
	return streams.New(c.js).Walk(ctx, events.StreamComparisons, 0, func(msg streams.Message) error {
		var compared Comparison
		if err := json.Unmarshal(msg.Data, &compared); err != nil {
			return fmt.Errorf("sequence %d of %s is no comparison: %w", msg.Sequence, events.StreamComparisons, err)
		}
		return visit(compared)
	})
}
