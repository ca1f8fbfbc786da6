package main

import (
	"fmt"
	"strings"
)

// rule is a part of docs/protocol.md that can be switched off to see what it prevents.
type rule uint8

const (
	ruleBuilt rule = iota
	ruleRebuilt
	ruleRead
	ruleLabel
	ruleFence
	ruleConfirm
	ruleEpoch
	ruleRevoke
	ruleGone
	ruleShoots
	ruleOwn
	ruleMark
	ruleDirtying
	ruleRelook
	ruleReleased
	ruleGeneration
	ruleFreed
	ruleFollow
	ruleLast
	ruleOver
	ruleTakeBack
	ruleAudit
	ruleRecord
	ruleRefuse
	ruleWaitsOn
	ruleTurn
	ruleToken
	ruleSeal
	ruleOrder
	ruleTombs
	ruleUnconfirmed
	rulePlace
	ruleDepart
	ruleBarred
	ruleHistory
	ruleLook
	ruleLookLast
	ruleRecordFirst
	ruleVersion
	ruleWait
	ruleTakeOver
	ruleReplicas
	ruleWaitsAudit
	ruleRestoreFirst
	rulePaused
	ruleSharedLabel
	ruleClaimedIn
	ruleLeft
	ruleElsewhere
	ruleBacklog
	ruleEntryFirst
	ruleSettled
	rules // their number
)

// ruleTexts are the name of each rule, its number in docs/protocol.md, and the behaviour without it.
var ruleTexts = [rules]struct{ name, number, without string }{
	ruleBuilt:        {"built", "1", "Redis decides on empty records"},
	ruleRebuilt:      {"rebuilt", "1", "assign is not told the epoch that the pool had when the directory was asked"},
	ruleRead:         {"rvFirst", "2", "the label is read after the script, and again after a conflict"},
	ruleLabel:        {"label", "4", "an unconfirmed decision is answered at once"},
	ruleFence:        {"fence", "4", "a label with an old epoch is good enough"},
	ruleConfirm:      {"confirm", "5", "who wrote the label answers"},
	ruleEpoch:        {"epoch", "5", "confirm is not told the decision's epoch"},
	ruleRevoke:       {"revokeGuard", "6", "revoke frees the binding, no matter who has confirmed it"},
	ruleGone:         {"gone", "7", "nothing is remembered of the departure of a runtime that is not assigned"},
	ruleShoots:       {"shoots", "8", "an account is marked dirty without any look at the Shoots"},
	ruleOwn:          {"dirtyView", "8", "an account is marked dirty whatever tenant its label names"},
	ruleMark:         {"dirtyGen", "8", "what is written on an account that was left leaves its generation as it is"},
	ruleDirtying:     {"beginDirtying", "8", "an account is marked dirty without asking Redis"},
	ruleRelook:       {"relook", "8", "an account is marked dirty without a second look at the Shoots, once Redis has permitted it"},
	ruleReleased:     {"releasedBy", "9", "a release does not look at who released last"},
	ruleGeneration:   {"staleRelease", "9", "a release does not look at the generation"},
	ruleFreed:        {"freedGen", "9", "mark-freed is not told which claim has ended"},
	ruleFollow:       {"follow", "10", "labels of others are not followed"},
	ruleLast:         {"lastSequence", "11", "replies are published whatever is stored there"},
	ruleOver:         {"startOver", "11", "an old decision is published under a newer sequence"},
	ruleTakeBack:     {"takeBack", "11", "what a refused request holds stays counted"},
	ruleAudit:        {"audit", "11", "audits do not take back what refused requests hold"},
	ruleRecord:       {"record", "12", "the reply says waiting before the request is recorded"},
	ruleRefuse:       {"refuse", "12", "a request is refused at its deadline without asking Redis"},
	ruleWaitsOn:      {"waitsOn", "12", "who is served and waits anew is not looked up in the ledger"},
	ruleTurn:         {"turn", "12", "any request may claim while others wait"},
	ruleToken:        {"token", "13a", "a rebuild installs even if another one has begun since"},
	ruleSeal:         {"seal", "13b", "the ledger is read without sealing"},
	ruleOrder:        {"order", "13c", "the ledger is read before the seal"},
	ruleTombs:        {"tombs", "13d", "runtimes that are gone are not rebuilt"},
	ruleUnconfirmed:  {"unconfirmed", "13d", "rebuilt bindings count as confirmed"},
	rulePlace:        {"place", "directory", "a provision goes to the pool of its rule"},
	ruleDepart:       {"depart", "directory", "a deprovision of an unknown runtime leaves no entry"},
	ruleHistory:      {"history", "1", "a replica that is promoted decides with what the master has"},
	ruleLook:         {"look", "15", "a decision has an effect whatever the record says"},
	ruleLookLast:     {"lookLast", "15", "the record is read when the event is taken, before what fences the effect"},
	ruleRecordFirst:  {"recordFirst", "15", "the record is written after the seal and the reads"},
	ruleVersion:      {"version", "15", "a write of the record that comes a second time is not refused"},
	ruleWait:         {"outlast", "15", "a rebuild does not wait for leaders of NATS that were deposed"},
	ruleTakeOver:     {"takeOver", "15", "a place whose epoch in force is another server's is never rebuilt"},
	ruleReplicas:     {"replicas", "15", "an epoch that no record names counts again once the server's replica has left it"},
	ruleWaitsAudit:   {"waitsAudit", "12", "audits leave what stands in the queue though no request of it waits"},
	ruleRestoreFirst: {"restoreFirst", "audits", "a count is put right before the assignments are back that Redis forgot"},
	rulePaused:       {"paused", "3", "a pool that is paused assigns"},
	ruleSharedLabel:  {"sharedLabel", "10", "labels on shared accounts are followed like those of a claim"},
	ruleClaimedIn:    {"claimedIn", "10", "no claim notes its pool"},
	ruleBacklog:      {"backlog", "14", "a runtime is forgotten while an event of it is unsettled"},
	ruleEntryFirst:   {"entryFirst", "14", "the record is dropped before the entry of the directory"},
	ruleSettled:      {"settled", "14", "the record is dropped while somebody may have read the entry"},
	ruleElsewhere:    {"elsewhere", "8", "an account is marked dirty whichever pool counts it"},
	ruleLeft:         {"left", "10", "the record of an account that was deleted, or left its pool, stays as it is"},
	ruleBarred:       {"barred", "3", "Redis is not told what is cordoned or internal"},
}

func (r rule) String() string { return ruleTexts[r].name }

// ruleSet has the rules that are switched off.
type ruleSet [rules]bool

// parseRules parses names of rules, separated by commas.
func parseRules(text string) (ruleSet, error) {
	var set ruleSet
next:
	for name := range strings.SplitSeq(text, ",") {
		if name == "" {
			continue
		}
		for r := range rules {
			if ruleTexts[r].name == name {
				set[r] = true
				continue next
			}
		}
		return set, fmt.Errorf("no rule is called %q; -h lists them", name)
	}
	return set, nil
}
