// Package faults runs workers under load while everything around them fails by a schedule that is drawn from
// a seed. Then it ends all faults, and package checker checks the result. docs/testing-faults.md lists the
// faults and checks.
package faults

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"
)

// Kind is a kind of fault.
type Kind string

// The kinds of faults.
const (
	WorkerKilled    Kind = "worker killed"     // SIGKILL, started again after a while
	WorkersKilled   Kind = "workers killed"    // all at once
	WorkerStopped   Kind = "worker stopped"    // SIGTERM, as a rolling update does
	WorkerPaused    Kind = "worker paused"     // SIGSTOP for longer than the consumer's AckWait
	RedisLost       Kind = "redis lost"        // started again empty
	RedisRewound    Kind = "redis rewound"     // started again with data of some seconds ago
	RedisKilled     Kind = "redis killed"      // started again with its own data
	RedisFlaky      Kind = "redis flaky"       // connections are cut before and after requests
	RedisFailedOver Kind = "redis failed over" // a replica becomes the master, and the old master its replica
	RedisTwoMasters Kind = "redis two masters" // the same, and one worker is left with the old master for a while
	NATSRestarted   Kind = "nats restarted"    // stopped for a while
	KubeFlaky       Kind = "kube flaky"        // 409, 429, 500, cuts and silence, before and after the commit
	KubeDown        Kind = "kube down"         // connections refused
	WatchCut        Kind = "kube watches cut"  // all connections closed once

	ConsumerDeleted Kind = "consumer deleted" // the one of all workers, who recreate it
	Junk            Kind = "junk"             // messages that no worker can read, in each stream but HAP_EVENTS
	DeadPurged      Kind = "dead letters purged"
	ConfigChanged   Kind = "config changed" // a changed one, then half of it, then the original

	BindingMoved   Kind = "binding moved"   // a free account is in another pool for some time
	BindingDeleted Kind = "binding deleted" // a free account is deleted, and another is created
)

// Kinds returns all kinds of faults.
func Kinds() []Kind {
	return []Kind{
		WorkerKilled, WorkersKilled, WorkerStopped, WorkerPaused, RedisLost, RedisRewound, RedisKilled,
		RedisFlaky, RedisFailedOver, RedisTwoMasters, NATSRestarted, KubeFlaky, KubeDown, WatchCut,
		ConsumerDeleted, Junk, DeadPurged, ConfigChanged, BindingMoved, BindingDeleted,
	}
}

// Action is one fault of a schedule.
type Action struct {
	At     time.Duration // since the beginning of the load
	Kind   Kind
	Worker int           // which one, if the kind concerns one
	For    time.Duration // how long it lasts
}

func (a Action) String() string {
	return fmt.Sprintf("%6.1fs %s (worker %d, for %.1fs)", a.At.Seconds(), a.Kind, a.Worker+1, a.For.Seconds())
}

// lasts returns the least and the greatest duration of a kind, in milliseconds.
func lasts(k Kind) (least, most int) {
	switch k {
	case WorkerPaused:
		return 5000, 9000 // AckWait is 4 s
	case RedisRewound:
		return 2000, 7000 // between the copy and its return
	case RedisFlaky, RedisTwoMasters, KubeFlaky, Junk, ConfigChanged:
		return 4000, 9000
	case KubeDown:
		return 1000, 6000
	default:
		return 100, 3000
	}
}

// Plan returns the schedule of a seed. All kinds occur once in random order, then all once more, and so on, until
// two seconds before the end of duration. A fault may begin before an earlier one ends.
func Plan(seed uint64, duration time.Duration, workers int) []Action {
	return plan(seed, duration, workers, Kinds(), 1500, 4500)
}

// soakPlan returns the schedule of a soak. Faults are rare, because the soak's readings have to show the load and
// not the faults.
func soakPlan(seed uint64, duration time.Duration, workers int) []Action {
	return plan(seed, duration, workers, soakKinds(), 15_000, 45_000)
}

// plan draws from kinds. Faults begin least to most milliseconds apart.
func plan(seed uint64, duration time.Duration, workers int, kinds []Kind, least, most int) []Action {
	random := rand.New(rand.NewPCG(seed, 1))
	var plan []Action
	var deck []Kind
	ms := func(least, most int) time.Duration {
		return time.Duration(least+random.IntN(most-least)) * time.Millisecond
	}
	for at := ms(2000, 4000); at < duration-2*time.Second; at += ms(least, most) {
		if len(deck) == 0 {
			deck = slices.Clone(kinds)
			random.Shuffle(len(deck), func(i, j int) { deck[i], deck[j] = deck[j], deck[i] })
		}
		plan = append(plan, Action{At: at, Kind: deck[0], Worker: random.IntN(workers), For: ms(lasts(deck[0]))})
		deck = deck[1:]
	}
	return plan
}
