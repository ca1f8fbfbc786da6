package main

import (
	"slices"
	"strconv"
	"strings"

	"github.com/hap-worker/hap-worker/engine/account"
)

// The names of things in the scripts, and their indexes. A tenant, epoch or runtime state with index 0 is "".

var states = [...]account.State{account.Free, account.Claiming, account.InUse, account.Draining, account.Dirtying}

const (
	free uint8 = iota
	claiming
	claimed
	draining
	dirtying
)

var runtimeStates = [...]account.RuntimeState{
	"", account.RuntimeWaiting, account.RuntimeAssigned, account.RuntimeGone, account.RuntimeRefused,
}

const (
	unknownRuntime uint8 = iota
	waitingRuntime
	assignedRuntime
	goneRuntime
	refusedRuntime
)

func stateIndex(s account.State) uint8 { return uint8(slices.Index(states[:], s)) }

var poolNames = [...]string{"p", "q"}

func bindingName(b uint8) string { return "b" + strconv.Itoa(int(b)) }

func requestName(e uint8) string { return "e" + strconv.Itoa(int(e)) }

func tenantName(t uint8) string { return name("t", t) }

func epochName(t uint8) string { return name("epoch-", t) }

func name(prefix string, n uint8) string {
	if n == 0 {
		return ""
	}
	return prefix + strconv.Itoa(int(n))
}

func bindingIndex(s string) uint8 { return number(s, 1, 1) }

// requestSet returns the set of the events that requests name.
func requestSet(requests string) (set uint8) {
	for one := range strings.FieldsSeq(requests) {
		set |= 1 << number(one, 1, 0)
	}
	return set
}

func requestNames(set uint8) string {
	var names []string
	for e := range uint8(8) {
		if set&(1<<e) != 0 {
			names = append(names, requestName(e))
		}
	}
	return strings.Join(names, " ")
}

func tenantIndex(s string) uint8 { return number(s, 1, 0) }

func epochIndex(s string) uint8 { return number(s, len("epoch-"), 0) }

// number parses a name that has a prefix of this length, and adds plus.
func number(s string, prefix int, plus uint8) uint8 {
	if s == "" {
		return 0
	}
	n, err := strconv.ParseUint(s[prefix:], 10, 8)
	if err != nil {
		panic("not a name of this world: " + s)
	}
	return uint8(n) + plus
}
