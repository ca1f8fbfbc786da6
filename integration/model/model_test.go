package main

import (
	"bytes"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"testing"
	"time"
)

// rewriting reports -rewrite, which datadriven has defined for all packages.
func rewriting() bool { return flag.Lookup("rewrite").Value.String() == "true" }

// TestMain limits the garbage of explorations, which run one after the other and keep almost everything.
func TestMain(m *testing.M) {
	debug.SetGCPercent(25)
	os.Exit(m.Run())
}

// within limits the explorations of these tests; none reaches it.
var within = bounds{states: 4_000_000, time: 5 * time.Minute}

func world(t *testing.T, name, set, off string) *explorer {
	t.Helper()
	c, known := configs[name]
	if !known {
		t.Fatalf("no configuration is called %q", name)
	}
	without, err := parseRules(off)
	if err := errors.Join(err, c.set(set)); err != nil {
		t.Fatal(err)
	}
	return newExplorer(newModel(c, without))
}

// TestRulesHold explores small worlds to their end, with workers that keep every rule.
func TestRulesHold(t *testing.T) {
	for _, c := range []struct{ config, set string }{
		{"tiny", "dup=1,crash=1,lost=1,loss=1"},
		{"base", "dup=1,crash=1"},
		{"base", "down=1,dup=1"},
		{"two", "stale=1,lost=1"},
		{"reuse", "dup=1,lost=1"},
		{"return", "dup=1,crash=1"},
		{"again", ""},
		{"early", ""},
		{"wait", "dup=1,expire=1"},
		{"waitgo", "expire=1"},
		{"queue", "dup=1"},
		{"three", "stale=1,dup=1"},
		{"samer", "dup=1,expire=1"},
		{"rebuild", ""},
		{"loss", ""},
		{"hand", "dup=1"},
		{"hand", "stale=1,lost=1"},
		{"handgo", "stale=1"},
		{"single", "dup=1"},
		{"singles", "dup=1"},
		{"place", "dup=1,crash=1"},
		{"placeloss", "dup=1,crash=1"},
		{"goneloss", "dup=1,crash=1"},
		{"norule", "dup=1,audits=0"},
		{"norule", "crash=1"},
		{"norule", "dup=1,crash=1"},
		{"shared", "dup=1,crash=1"},
		{"shared", "loss=1"},
		{"pause", "dup=1"},
		{"moved", ""},
		{"deleted", ""},
		{"forgets", "dup=1"},
		{"retain", "dup=1,crash=1"},
		{"retain", "loss=1"},
		{"cordon", "dup=1,crash=1,stale=1"},
		{"internal", "dup=1,crash=1"},
		{"masters", ""},
		{"mastersgone", ""},
		{"mastersplace", ""},
		{"unfenced", ""},
	} {
		t.Run(c.config+" "+c.set, func(t *testing.T) {
			x := world(t, c.config, c.set, "")
			r := x.explore(within)
			t.Log(r)
			if !r.complete {
				t.Fatalf("the exploration was not complete")
			}
			for _, v := range r.violations {
				t.Error(x.story(v))
			}
		})
	}
}

// withoutRule says in which world the absence of a rule is found, and after how many steps at least.
type withoutRule struct {
	rule   rule
	config string
	set    string
	steps  int
}

var withoutRules = []withoutRule{
	{ruleBuilt, "loss", "", 7},
	{ruleRebuilt, "goneloss", "", 27},
	{ruleRead, "wait", "dup=1", 22},
	{ruleLabel, "reuse", "", 4},
	{ruleFence, "rebuild", "", 20},
	{ruleConfirm, "two", "", 6},
	{ruleEpoch, "one", "dup=1,workers=3", 22},
	{ruleRevoke, "handloss", "", 17},
	{ruleGone, "tiny", "", 12},
	{ruleShoots, "early", "", 13},
	{ruleOwn, "hand", "dup=1", 32},
	{ruleMark, "waitgo", "dup=1", 40},
	{ruleDirtying, "base", "", 16},
	{ruleRelook, "early", "", 22},
	{ruleReleased, "again", "lost=1", 25},
	{ruleGeneration, "again", "", 41},
	{ruleFreed, "again", "dup=1", 41},
	{ruleFollow, "hand", "", 1},
	{ruleLast, "wait", "dup=1", 9},
	{ruleOver, "rebuild", "", 9},
	{ruleTakeBack, "norule", "audits=0", 17},
	{ruleRecord, "wait", "crash=1", 8},
	{ruleRefuse, "wait", "expire=1,dup=1,crash=1", 17},
	{ruleWaitsOn, "norule", "dup=1,audits=0", 40},
	{ruleTurn, "queue", "", 22},
	{ruleToken, "tiny", "loss=2,dup=1", 12},
	{ruleSeal, "rebuild", "", 9},
	{ruleOrder, "loss", "", 12},
	{ruleTombs, "rebuild", "", 18},
	{ruleUnconfirmed, "rebuild", "", 19},
	{rulePlace, "place", "", 14},
	{ruleDepart, "place", "", 13},
	{ruleBarred, "cordon", "", 4},
	{ruleAudit, "norule", "dup=1,crash=1", 9},
	{ruleHistory, "masters", "", 7},
	{ruleLook, "masters", "", 12},
	{ruleLookLast, "masters", "", 14},
	{ruleRecordFirst, "masters", "", 11},
	{ruleVersion, "masters", "lost=1", 18},
	{ruleWait, "masters", "", 11},
	{ruleTakeOver, "mastersgone", "", 5},
	{ruleReplicas, "unfenced", "", 11},
	{ruleWaitsAudit, "norule", "dup=1,crash=1", 16},
	{ruleRestoreFirst, "forgets", "", 14},
	{rulePaused, "pause", "", 4},
	{ruleSharedLabel, "shared", "others=2", 7},
	{ruleClaimedIn, "moved", "", 15},
	{ruleLeft, "deleted", "", 14},
	{ruleElsewhere, "moved", "", 21},
	{ruleBacklog, "retain", "", 18},
	{ruleEntryFirst, "retain", "", 27},
	{ruleSettled, "retain", "", 27},
}

// TestEveryRuleIsNeeded switches off one rule at a time: the explorer must find a violation, and its story is
// the one under testdata.
func TestEveryRuleIsNeeded(t *testing.T) {
	missing := map[rule]bool{}
	for r := range rules {
		missing[r] = true
	}
	for _, c := range withoutRules {
		delete(missing, c.rule)
		t.Run(c.rule.String(), func(t *testing.T) {
			steps := tell(t, world(t, c.config, c.set, c.rule.String()), c.rule.String())
			if steps != c.steps {
				t.Errorf("the shortest trace has %d steps, not %d", steps, c.steps)
			}
		})
	}
	for r := range missing {
		t.Errorf("rule %s is left out nowhere", r)
	}
}

// tell explores to the first violation, and compares its story with testdata.
func tell(t *testing.T, x *explorer, name string) (steps int) {
	t.Helper()
	b := within
	b.first = true
	r := x.explore(b)
	if len(r.violations) == 0 {
		t.Fatalf("no invariant is broken: %s", r)
	}
	story := x.story(r.violations[0])
	file := filepath.Join("testdata", name+".txt")
	if rewriting() {
		if err := os.WriteFile(file, []byte(story), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if story != string(want) {
		t.Errorf("%s tells another story; -rewrite writes it anew:\n%s", file, story)
	}
	_, steps = x.trace(r.violations[0])
	return steps
}

// TestCommand shows what the program says and how it ends.
func TestCommand(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		args string
		want error
		says string
	}{
		{"-config tiny", nil, "complete: "},
		{"-config tiny -set dup=1,shoots=1,workers=1", nil, "1 workers"},
		{"-config tiny -off gone -stop", errBroken, "=> I6 CountsTrue"},
		{"-config base -states 100", nil, "not complete: "},
		{"-h", flag.ErrHelp, "without it"},
	} {
		var out bytes.Buffer
		err := run(strings.Fields(c.args), &out)
		if !errors.Is(err, c.want) || !strings.Contains(out.String(), c.says) {
			t.Errorf("%s: %v\n%s", c.args, err, out.String())
		}
	}
	for args, want := range map[string]string{
		"-config none": "no configuration", "-off none": "no rule", "-set none=1": "is needed", "-set dup=16": "from 0 to 15", "-set workers=4": "is needed",
	} {
		if err := run(strings.Fields(args), &bytes.Buffer{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", args, err)
		}
	}
}
