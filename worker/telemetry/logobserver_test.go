package telemetry

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/hap-worker/hap-worker/engine/account"
	"github.com/hap-worker/hap-worker/engine/network"
	"github.com/hap-worker/hap-worker/worker/observe"
)

// TestLogObserver writes each kind of fact, and holds its line.
func TestLogObserver(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken pipe")
	conflicts, drifts := make([]string, mostLines+2), make([]account.Drift, mostLines+2)
	for i := range conflicts {
		conflicts[i] = fmt.Sprintf("10.0.%d.0/24", i)
		drifts[i].Kind = account.CountWrong
	}
	for _, c := range []struct {
		name string
		fact func(observe.Observer)
		want string // the first line
		last string // the last one, "" where it is the first
	}{
		{"an answered event", func(o observe.Observer) {
			o.Event(t.Context(), observe.Event{Type: "provision", ID: "p", Subject: "s", Outcome: observe.Ack, Status: "assigned", Binding: "b", Duration: time.Second, Delivery: 2})
		}, `level=INFO msg=event event.type=provision event.request=p event.subject=s event.outcome=ack event.duration=1s event.delivery=2 event.status=assigned event.binding=b`, ""},
		{"a request that waited", func(o observe.Observer) {
			o.Event(t.Context(), observe.Event{Type: "provision", ID: "p", Outcome: observe.Served, Waited: time.Minute, Delivery: 1})
		}, `level=INFO msg=event event.type=provision event.request=p event.subject="" event.outcome=served event.duration=0s event.delivery=1 event.waited=1m0s`, ""},
		{"a dead letter", func(o observe.Observer) {
			o.Event(t.Context(), observe.Event{Type: "release", ID: "r", Outcome: observe.DeadLetter, Code: "InvalidEvent", Reason: "no JSON", Delivery: 1})
		}, `level=WARN msg="dead letter" event.type=release event.request=r event.subject="" event.outcome=bury event.duration=0s event.delivery=1 event.code=InvalidEvent event.reason="no JSON"`, ""},
		{"an event for later", func(o observe.Observer) {
			o.Event(t.Context(), observe.Event{Type: "provision", ID: "p", Outcome: observe.NakWithDelay, Delivery: 1})
		}, `level=WARN msg="event will be redelivered" event.type=provision event.request=p event.subject="" event.outcome=later event.duration=0s event.delivery=1`, ""},
		{"a decision", func(o observe.Observer) {
			o.Decision(t.Context(), observe.Decision{Pool: "aws", Runtime: "rt", Decision: account.Decision{Outcome: account.Assigned, Binding: "b", Origin: account.Own, Sequence: 7, Confirmed: true, Count: 3}})
		}, `level=DEBUG msg=decision decision.pool=aws decision.runtime=rt decision.outcome=assigned decision.binding=b decision.origin=own decision.sequence=7 decision.confirmed=true decision.clusters=3`, ""},
		{"a claim", func(o observe.Observer) {
			o.Claim(t.Context(), observe.Claim{Binding: "b", Pool: "aws", Runtime: "rt", Result: observe.ClaimWritten})
		}, `level=INFO msg=claimed claim.binding=b claim.pool=aws claim.runtime=rt claim.result=ok claim.duration=0s`, ""},
		{"a claim that failed", func(o observe.Observer) {
			o.Claim(t.Context(), observe.Claim{Binding: "b", Pool: "aws", Runtime: "rt", Result: observe.ClaimUnknown, Err: broken})
		}, `level=WARN msg="claim failed" claim.binding=b claim.pool=aws claim.runtime=rt claim.result=unknown claim.duration=0s claim.error="broken pipe"`, ""},
		{"a claim that is another's", func(o observe.Observer) {
			o.Claim(t.Context(), observe.Claim{Binding: "b", Pool: "aws", Runtime: "rt", Result: observe.ClaimRevoked})
		}, `level=WARN msg="claim revoked" claim.binding=b claim.pool=aws claim.runtime=rt claim.result=revoked claim.duration=0s`, ""},
		{"a rebuild", func(o observe.Observer) {
			o.Rebuild(t.Context(), observe.Rebuild{Pools: []string{"aws"}, Buckets: 64, Replies: 3, Runtimes: 2, Sealed: 1, Duration: time.Second})
		}, `level=INFO msg=rebuilt rebuild.pools=[aws] rebuild.buckets=64 rebuild.replies=3 rebuild.runtimes=2 rebuild.sealed=1 rebuild.foreign=0 rebuild.ranges=0 rebuild.duration=1s`, ""},
		{"a rebuild by two workers", func(o observe.Observer) { o.Rebuild(t.Context(), observe.Rebuild{Err: broken, Elsewhere: true}) },
			`level=INFO msg="rebuilt a part; another worker rebuilds the rest" rebuild.pools=[] rebuild.buckets=0 rebuild.replies=0 rebuild.runtimes=0 rebuild.sealed=0 rebuild.foreign=0 rebuild.ranges=0 rebuild.duration=0s rebuild.error="broken pipe"`, ""},
		{"a rebuild that failed", func(o observe.Observer) { o.Rebuild(t.Context(), observe.Rebuild{Err: broken}) },
			`level=ERROR msg="rebuild failed" rebuild.pools=[] rebuild.buckets=0 rebuild.replies=0 rebuild.runtimes=0 rebuild.sealed=0 rebuild.foreign=0 rebuild.ranges=0 rebuild.duration=0s rebuild.error="broken pipe"`, ""},
		{"drift", func(o observe.Observer) {
			o.Drift(t.Context(), observe.Drift{Found: []account.Drift{{Kind: account.CountWrong, Pool: "aws", Binding: "b", Message: "counted 2, 1 runtimes are assigned to it"}}})
		}, `level=WARN msg=drift kind=count-wrong pool=aws binding=b runtime="" what="counted 2, 1 runtimes are assigned to it" remedy=mended`,
			`level=INFO msg=audited audit.found=1 audit.changed=0 audit.duration=0s audit.count-wrong=1`},
		{"an audit that failed", func(o observe.Observer) { o.Drift(t.Context(), observe.Drift{Err: broken}) },
			`level=ERROR msg="audit failed" audit.found=0 audit.changed=0 audit.duration=0s audit.error="broken pipe"`, ""},
		{"a repair that failed", func(o observe.Observer) { o.Drift(t.Context(), observe.Drift{Found: drifts[:1], RepairErr: broken}) },
			`level=WARN msg=drift`, `level=ERROR msg="repairs after an audit failed" audit.found=1 audit.changed=0 audit.duration=0s audit.count-wrong=1 audit.error="broken pipe"`},
		{"an audit of a part", func(o observe.Observer) { o.Drift(t.Context(), observe.Drift{NotBuilt: []string{"aws"}}) },
			`level=INFO msg=audited audit.found=0 audit.changed=0 audit.duration=0s audit.notBuilt=1`, ""},
		{"a label that Redis follows", func(o observe.Observer) {
			o.Followed(t.Context(), observe.Followed{Binding: "b", Pool: "aws", Observation: account.Observation{Change: account.BecameDoubted}})
		}, `level=INFO msg="updated Redis from a label" followed.binding=b followed.pool=aws followed.change=doubted followed.was="" followed.tenant=""`, ""},
		{"an attempt that failed", func(o observe.Observer) {
			o.Retry(t.Context(), observe.Retry{Type: "provision", ID: "p", After: time.Second, Err: broken})
		}, `level=WARN msg="an attempt failed" retry.type=provision retry.request=p retry.after=1s retry.error="broken pipe"`, ""},
		{"a rule that matches a cluster now", func(o observe.Observer) {
			o.Extended(t.Context(), observe.Extended{Runtime: "rt", Rule: "nodes", Request: "x"})
		}, `level=INFO msg="allotted ranges to a cluster that a network rule now matches" runtime=rt rule=nodes request=x`, ""},
		{"a rule without room", func(o observe.Observer) {
			o.Extended(t.Context(), observe.Extended{Runtime: "rt", Rule: "nodes", Err: broken})
		}, `level=WARN msg="no free range for a cluster that a network rule now matches; trying again when blocks become free, and at the next refresh" runtime=rt rule=nodes error="broken pipe"`, ""},
		{"a rule whose path is taken", func(o observe.Observer) {
			o.Skipped(t.Context(), observe.Skipped{Runtime: "rt", Skipped: network.Skipped{Rule: "nodes", Path: "/spec/networking/nodes", By: "other"}})
		}, `level=WARN msg="skipped a network rule, because another rule already sets the path; the cluster keeps its ranges" runtime=rt rule=nodes path=/spec/networking/nodes takenBy=other`, ""},
		{"ClusterConfigs", func(o observe.Observer) { o.Noted(t.Context(), observe.Noted{Runtime: "rt", Written: 2}) },
			`level=INFO msg=ClusterConfigs clusterConfigs.runtime=rt clusterConfigs.written=2 clusterConfigs.removed=0`, ""},
		{"ClusterConfigs of another", func(o observe.Observer) {
			o.Noted(t.Context(), observe.Noted{Runtime: "rt", Taken: []network.Taken{{}}})
		}, `level=WARN msg="left objects unchanged that have the name of a ClusterConfig and another owner" clusterConfigs.runtime=rt clusterConfigs.written=0 clusterConfigs.removed=0 clusterConfigs.taken=`, ""},
		{"ClusterConfigs that failed", func(o observe.Observer) { o.Noted(t.Context(), observe.Noted{Runtime: "rt", Err: broken}) },
			`level=WARN msg="ClusterConfigs differ from the ledger" clusterConfigs.runtime=rt clusterConfigs.written=0 clusterConfigs.removed=0 clusterConfigs.error="broken pipe"`, ""},
		{"ClusterConfigs that failed again", func(o observe.Observer) {
			o.Noted(t.Context(), observe.Noted{Runtime: "rt", Err: broken, Failed: 1})
		}, `level=DEBUG msg="ClusterConfigs still differ from the ledger" clusterConfigs.runtime=rt clusterConfigs.written=0 clusterConfigs.removed=0 clusterConfigs.error="broken pipe"`, ""},
		{"a comparison of the ranges", func(o observe.Observer) {
			o.Refresh(t.Context(), observe.Refresh{Restored: 1, Released: 2, Blocked: 3, Unblocked: 4})
		}, `level=INFO msg="compared the network ranges" refresh.restored=1 refresh.released=2 refresh.blocked=3 refresh.unblocked=4 refresh.conflicts=0`, ""},
		{"conflicts of blocks", func(o observe.Observer) { o.Refresh(t.Context(), observe.Refresh{Conflicts: conflicts[:1]}) },
			`level=WARN msg="network blocks conflict; none of them will be allotted again" conflict=10.0.0.0/24`,
			`level=INFO msg="compared the network ranges" refresh.restored=0 refresh.released=0 refresh.blocked=0 refresh.unblocked=0 refresh.conflicts=1`},
		{"a pass of retention", func(o observe.Observer) {
			o.Retention(t.Context(), observe.Retention{Purged: 1, Forgotten: 2, Kept: map[observe.KeptBecause]int{observe.KeptWaiting: 4, observe.KeptBacklog: 3}})
		}, `level=INFO msg="forgot released runtimes" retention.purged=1 retention.forgotten=2 retention.removed=0 retention.duration=0s retention.kept-backlog=3 retention.kept-waiting=4`, ""},
		{"a circuit that opens", func(o observe.Observer) {
			o.Circuit(t.Context(), observe.Circuit{Dependency: "labels", Pool: "aws", Open: true, Err: broken})
		}, `level=WARN msg="a dependency fails or hangs; it is now called once a second" circuit.dependency=labels circuit.pool=aws circuit.error="broken pipe"`, ""},
		{"a circuit that closes", func(o observe.Observer) { o.Circuit(t.Context(), observe.Circuit{Dependency: "shoots"}) },
			`level=INFO msg="a dependency answers again" circuit.dependency=shoots`, ""},
		{"a clock that differs", func(o observe.Observer) {
			for _, offset := range []time.Duration{time.Second, -3 * time.Second, -4 * time.Second, 0, time.Second} {
				o.Clock(t.Context(), observe.Clock{Store: "nats", Offset: offset})
			}
		}, `level=WARN msg="the clock of this machine differs from that of a server; have both follow the same time service. Deadlines and leases go by the server's" server=nats ahead=-3s`,
			`level=INFO msg="the clock of this machine agrees with that of a server again" server=nats ahead=0s`},
		{"a pass that failed", func(o observe.Observer) { o.Retention(t.Context(), observe.Retention{Err: broken}) },
			`level=WARN msg="could not forget all released runtimes; the next pass continues" retention.purged=0 retention.forgotten=0 retention.removed=0 retention.duration=0s retention.error="broken pipe"`, ""},
	} {
		lines := logged(c.fact)
		if last := max(len(lines)-1, 0); len(lines) == 0 || !strings.HasPrefix(lines[0], c.want) || c.last != "" && lines[last] != c.last || c.last == "" && last > 0 {
			t.Errorf("%s is logged as\n%s\nwant\n%s\n%s", c.name, strings.Join(lines, "\n"), c.want, c.last)
		}
	}
	all := logged(func(o observe.Observer) { o.Refresh(t.Context(), observe.Refresh{Conflicts: conflicts}) })
	if len(all) != mostLines+2 || all[mostLines] != `level=WARN msg="more network blocks conflict" more=2` {
		t.Errorf("%d conflicts make %d lines, the last but one is %s", len(conflicts), len(all), all[len(all)-2])
	}
	all = logged(func(o observe.Observer) { o.Drift(t.Context(), observe.Drift{Found: drifts}) })
	if len(all) != mostLines+2 || all[mostLines] != `level=WARN msg="more drifts; hapctl counters verify lists all of them" more=2` {
		t.Errorf("%d drifts make %d lines, the last but one is %s", len(drifts), len(all), all[len(all)-2])
	}
}

// TestLogObserverHasEachFact lists the facts that are not logged.
func TestLogObserverHasEachFact(t *testing.T) {
	t.Parallel()
	silent := map[string]bool{"OnStep": true, "OnAssigned": true, "OnWaiting": true, "OnFence": true, "OnUnserved": true}
	observer := reflect.ValueOf(LogObserver(slog.New(slog.DiscardHandler)))
	for i := range observer.NumField() {
		name := observer.Type().Field(i).Name
		if observer.Field(i).IsNil() != silent[name] {
			t.Errorf("%s: without a line is %t", name, observer.Field(i).IsNil())
		}
	}
}

// logged are the lines that a fact is written as, without their time.
func logged(fact func(observe.Observer)) []string {
	var out bytes.Buffer
	fact(LogObserver(slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{
		Level: slog.LevelDebug,
		ReplaceAttr: func(groups []string, a slog.Attr) slog.Attr {
			if len(groups) == 0 && a.Key == slog.TimeKey {
				return slog.Attr{}
			}
			return a
		},
	}))))
	return strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
}
