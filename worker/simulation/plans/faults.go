package plans

import "slices"

// The faults of single calls: each strikes the next matching call of its port.
const (
	EffectLost Kind = "a call has no effect and no answer"
	AnswerLost Kind = "a call takes effect and its answer is lost"
	EffectLate Kind = "a call takes effect after its caller gave up"
	Refusal    Kind = "a call is refused"
	Delay      Kind = "a call is delayed beyond every time-out"
)

// The faults of processes and of the world, and unusual requests.
const (
	Death        Kind = "a process dies and another starts"
	Stopping     Kind = "a process is stopped and another starts"
	Outage       Kind = "a dependency refuses everything for a while"
	ConsumerGone Kind = "the consumer is deleted"
	StreamGone   Kind = "the stream of events is deleted"
	MessageGone  Kind = "an event is deleted from its stream"
	WaitingGone  Kind = "a waiting request is deleted"
	Junk         Kind = "junk is stored in a stream"
	RedisEmpty   Kind = "Redis starts empty"
	RedisOlder   Kind = "Redis restarts with older data"
	FailOver     Kind = "Redis fails over to a replica that lags"
	FailBack     Kind = "Redis fails over and back, and writes are lost"
	TwoMasters   Kind = "two masters of Redis serve"
	CacheLags    Kind = "the watch of a process lags for minutes"
	LabelClaimed Kind = "a label is given a tenant by hand"
	LabelCleaned Kind = "a dirty account is cleaned by hand"
	LabelDirty   Kind = "an account is marked dirty by hand"
	Cordoned     Kind = "an account is cordoned, or not any more"
	Deleted      Kind = "a binding is deleted, at once or held by a finalizer"
	Added        Kind = "a binding is added"
	Moved        Kind = "an unused binding is moved to another pool"
	MovedUsed    Kind = "a binding in use is moved to another pool"
	Reconfigured Kind = "the configuration changes"
	Renetworked  Kind = "the network configuration changes"
	ClockJumps   Kind = "the clock of a process jumps"
	Large        Kind = "an event of nearly the greatest size"
	NoWaiting    Kind = "nothing may wait"
	TypeTwice    Kind = "a deprovision under the id of a provision"
	IDTwice      Kind = "an id is used by another tenant"
	RuntimeTwice Kind = "a runtime is asked for, or deprovisioned, by another tenant"
	Auditing     Kind = "Redis is audited and repaired"
	Forgetting   Kind = "what was released long ago is forgotten"
	Quiet        Kind = "everything heals and comes to rest"
	KeyLost      Kind = "Redis loses a key"
	RebuildCut   Kind = "a process dies in its rebuild, and so may the next two"
	RedisFull    Kind = "Redis is full for a while, and refuses what writes"
	Paused       Kind = "a process pauses"
	CutOff       Kind = "a process is cut off from its servers"
	SecretGone   Kind = "the Secret of a binding is gone, so that its labels cannot change"
)

// OfProcesses are the faults that need a running process at once.
var OfProcesses = []Kind{Death, Stopping, CacheLags, ClockJumps, Auditing, Forgetting, Paused, CutOff}

// Faults are the faults that histories draw from: all, except those that would lead to a known failure
// (campaign/known.go).
var Faults = []Kind{
	EffectLost, AnswerLost, EffectLate, Refusal, Delay, Death, Stopping, Outage, ConsumerGone, StreamGone, MessageGone, WaitingGone, Junk,
	RedisEmpty, RedisOlder, FailOver, FailBack, TwoMasters, CacheLags, LabelClaimed, LabelCleaned, LabelDirty, Cordoned, Deleted, Added, Moved, MovedUsed,
	Reconfigured, Renetworked, ClockJumps, Large, NoWaiting, TypeTwice, IDTwice, RuntimeTwice, Auditing, Forgetting, Quiet,
	KeyLost, RebuildCut, RedisFull, Paused, CutOff, SecretGone,
}

// FirstFaults are the faults before KeyLost, SecondFaults those before Paused, ThirdFaults those up to SecretGone. The
// seeds of mutants, and those of histories that failed once (campaign.Cured), draw from them. Add new kinds at the end
// of Faults, so that these seeds keep their plans.
var (
	FirstFaults  = Faults[:slices.Index(Faults, KeyLost)]
	SecondFaults = Faults[:slices.Index(Faults, Paused)]
	ThirdFaults  = Faults[:slices.Index(Faults, SecretGone)+1]
)
