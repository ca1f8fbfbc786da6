package contract

import "slices"

// Code names what went wrong, in a word that publishers and operators can rely
// on: it stands in replies, in dead letters and in the output of hapctl.
type Code string

// The codes of replies and of hapctl. Codes says what each means.
const (
	CodeInvalidEvent     Code = "InvalidEvent"
	CodeNoMatchingRule   Code = "NoMatchingRule"
	CodeUnknownProvider  Code = "UnknownProvider"
	CodePoolExhausted    Code = "PoolExhausted"
	CodeNetworkExhausted Code = "NetworkExhausted"
	CodeNoImplementation Code = "NoImplementation"
	CodeSuperseded       Code = "Superseded"
	CodeUnknownRuntime   Code = "UnknownRuntime"
	CodeUnknownBinding   Code = "UnknownBinding"
	CodeBindingInUse     Code = "BindingInUse"
	CodeNotDirty         Code = "NotDirty"
	CodeStaleRelease     Code = "StaleRelease"
	CodeInternal         Code = "Internal"
	CodeDeadlineExceeded Code = "DeadlineExceeded"
)

// Fate says what a worker does with the message of an event that ends in an error.
type Fate string

// The fates of messages.
const (
	// FateAcknowledged is the end of an event whose rejection is stored: its
	// publisher decides what comes next.
	FateAcknowledged Fate = "acknowledged"
	// FateDeadLettered is the end of an event that every delivery would reject: a copy is stored in HAP_DEAD,
	// and an operator has to look at it.
	FateDeadLettered Fate = "dead letter"
	// FateRedelivered is no end: the event is not answered, and the stream delivers it again.
	FateRedelivered Fate = "redelivered"
)

// The exit codes of hapctl that a Code may have.
const (
	ExitFailure  = 1
	ExitNothing  = 4   // no match, or the pool is empty
	ExitConflict = 5   // conflict or drift found
	ExitTimeout  = 124 // as in timeout(1)
)

// CodeInfo lists everything that depends on a Code. docs/messages.md has the same table.
type CodeInfo struct {
	Code  Code
	Means string // completes "rejected, because …", for docs/messages.md and hapctl

	// Answers lists the types of events, as in their subjects, whose replies can have the code. It omits the
	// exceptional rejections as Internal, which any type can get.
	Answers []string
	// AfterWaiting says that a request gets the code when its waiting time is over.
	AfterWaiting bool
	Fate         Fate
	Exit         int // of the hapctl command that ends with the code
	// Retryable says that the cause passes by itself: the same request may succeed
	// later, under a new id.
	Retryable bool
}

var codes = []CodeInfo{
	{
		Code: CodeInvalidEvent, Means: "the message breaks the contract: its form, its subject or a field",
		Answers: []string{"provision", "deprovision", "release", "resolve"}, Fate: FateDeadLettered, Exit: ExitFailure,
	},
	{
		Code: CodeNoMatchingRule, Means: "no rule matches plan and regions; there is no fall-back",
		Answers: []string{"provision"}, Fate: FateDeadLettered, Exit: ExitNothing,
	},
	{
		Code: CodeUnknownProvider, Means: "the provider is not one of the plan's, or none is given and the plan has no default",
		Answers: []string{"provision"}, Fate: FateDeadLettered, Exit: ExitFailure,
	},
	{
		Code: CodePoolExhausted, Means: "no account for the tenant until the deadline",
		Answers: []string{"provision"}, AfterWaiting: true, Fate: FateAcknowledged, Exit: ExitNothing, Retryable: true,
	},
	{
		Code: CodeNetworkExhausted, Means: "a network rule's parents have no room, or there is no network configuration although one is required, until the deadline",
		Answers: []string{"provision"}, AfterWaiting: true, Fate: FateAcknowledged, Exit: ExitNothing, Retryable: true,
	},
	{
		Code: CodeNoImplementation, Means: "the policy has no implementation for the interface",
		Answers: []string{"provision", "resolve"}, Fate: FateDeadLettered, Exit: ExitNothing,
	},
	{
		Code: CodeSuperseded, Means: "the runtime was deprovisioned meanwhile, or before",
		Answers: []string{"provision"}, Fate: FateAcknowledged, Exit: ExitConflict,
	},
	{
		Code: CodeUnknownRuntime, Means: "the runtime is in neither Redis nor the ledger",
		Fate: FateAcknowledged, Exit: ExitFailure,
	},
	{
		Code: CodeUnknownBinding, Means: "Gardener does not have the binding, or no binding refers to the Secret that a provision would get",
		Answers: []string{"provision", "release"}, Fate: FateAcknowledged, Exit: ExitFailure,
	},
	{
		Code: CodeBindingInUse, Means: "the binding still has clusters",
		Answers: []string{"release"}, Fate: FateAcknowledged, Exit: ExitConflict, Retryable: true,
	},
	{
		Code: CodeNotDirty, Means: "the binding is not marked dirty",
		Answers: []string{"release"}, Fate: FateAcknowledged, Exit: ExitConflict,
	},
	{
		Code: CodeStaleRelease, Means: "the release is for an earlier claim of the binding, or for a deleted binding of its name, or does not say for which of several claims",
		Answers: []string{"release"}, Fate: FateAcknowledged, Exit: ExitConflict,
	},
	{
		Code: CodeInternal, Means: "a fault of the worker, or of what it depends on; an event is rejected only if the worker panics each time it handles it, or if its answer is longer than NATS takes",
		Fate: FateRedelivered, Exit: ExitFailure, Retryable: true,
	},
	{
		Code: CodeDeadlineExceeded, Means: "the caller's time was over before the answer came; the request may still be in work, and the same id picks its answer up",
		Fate: FateRedelivered, Exit: ExitTimeout,
	},
}

// Codes returns the table of all codes, in the order of docs/messages.md.
func Codes() []CodeInfo { return slices.Clone(codes) }

// Info returns the table's row for c. For an unknown code, such as one in a reply of a newer version, it
// returns FateAcknowledged and ExitFailure.
func (c Code) Info() CodeInfo {
	for i := range codes {
		if codes[i].Code == c {
			return codes[i]
		}
	}
	return CodeInfo{Code: c, Fate: FateAcknowledged, Exit: ExitFailure}
}

// Retryable reports whether the same request may succeed later under a new id.
func (c Code) Retryable() bool { return c.Info().Retryable }
