package view

import (
	"cmp"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/hap-worker/hap-worker/cmd/hapctl/cli"
	"github.com/hap-worker/hap-worker/events"
)

// Reply is a reply. Its JSON is the stored data of the reply.
type Reply struct{ events.Reply }

// Show writes the reply for people. The wide form adds details of the binding, the number of the decision and the
// meaning of an error.
func (v Reply) Show(w io.Writer, wide bool) {
	r := v.Reply
	lines := [][2]string{
		{"STATUS", string(r.Status)}, {"REQUEST", r.RequestID}, {"RUNTIME", r.RuntimeID},
		{"TENANT", r.GlobalAccountID}, {"PLAN", planText(r)}, {"SHOOT", r.ShootName},
	}
	lines = append(lines, waitingLines(r.Waiting)...)
	lines = append(lines, bindingLines(r, wide)...)
	lines = append(lines, decisionLines(r.Decision, wide)...)
	if r.NetworkPending {
		lines = append(lines, [2]string{"NETWORK", "there are no network rules yet; a further reply has the ranges"})
	}
	for _, n := range r.Network {
		lines = append(lines, [2]string{"NETWORK", strings.TrimSpace(n.CIDR + " by " + n.Rule + " " + n.ID)})
	}
	if i := r.Implementation; i != nil {
		lines = append(lines, [2]string{"IMPLEMENTATION", i.Path + ":" + i.Revision})
		for _, inject := range i.Inject {
			lines = append(lines, [2]string{"INJECT", inject.Name + " = " + inject.ID})
		}
	}
	for _, p := range r.ShootPatch {
		lines = append(lines, [2]string{"SHOOT PATCH", fmt.Sprintf("%s %s %v", p.Op, p.Path, p.Value)})
	}
	if e := r.Error; e != nil {
		lines = append(lines, [2]string{"ERROR", string(e.Code)}, [2]string{"MESSAGE", e.Message}, [2]string{"RETRYABLE", strconv.FormatBool(e.Retryable)})
		if wide {
			lines = append(lines, [2]string{"MEANS", e.Code.Info().Means})
		}
	}
	cli.Pairs(w, lines)
	if r.Decision != nil && len(r.Decision.Considered) > 0 {
		rows := make([][]string, len(r.Decision.Considered))
		for i, c := range r.Decision.Considered {
			rows[i] = []string{c.Binding, strconv.Itoa(c.Clusters), c.Verdict}
		}
		fmt.Fprintln(w)
		cli.Table(w, []string{"CONSIDERED", "CLUSTERS", "VERDICT"}, rows)
	}
}

func planText(r events.Reply) string {
	if r.Provider == "" || r.Provider == r.Plan {
		return r.Plan
	}
	return r.Plan + ", provider " + r.Provider
}

func waitingLines(wait *events.Waiting) [][2]string {
	if wait == nil {
		return nil
	}
	lines := [][2]string{{"WAITS FOR", string(wait.Reason)}}
	if wait.Position > 0 {
		lines = append(lines, [2]string{"PLACE", strconv.Itoa(wait.Position)})
	}
	if !wait.Deadline.IsZero() {
		lines = append(lines, [2]string{"UNTIL", wait.Deadline.Format(time.RFC3339)})
	}
	return lines
}

func bindingLines(r events.Reply, wide bool) [][2]string {
	b := r.Binding
	if b == nil {
		return nil
	}
	lines := [][2]string{{"BINDING", b.Name}}
	if wide {
		lines = append(lines, [2]string{"KIND", b.Kind}, [2]string{"NAMESPACE", b.Namespace},
			[2]string{"HYPERSCALER TYPE", b.HyperscalerType}, [2]string{"EU ACCESS", strconv.FormatBool(b.EUAccess)},
			[2]string{"SHARED", strconv.FormatBool(b.Shared)}, [2]string{"GENERATION", strconv.FormatInt(b.Generation, 10)})
	}
	if b.Claimed {
		lines = append(lines, [2]string{"CLAIMED", "by this request"})
	}
	if r.Clusters != nil {
		lines = append(lines, [2]string{"CLUSTERS", OfLimit(*r.Clusters, r.Limit)})
	}
	switch {
	case r.MarkedDirty:
		lines = append(lines, [2]string{"ACCOUNT", "empty, marked dirty"})
	case r.Draining:
		lines = append(lines, [2]string{"ACCOUNT", "empty, marked dirty once no Shoot refers to it"})
	}
	return lines
}

// OfLimit returns a number of clusters, with the limit unless that is 0.
func OfLimit(clusters, limit int) string {
	if limit == 0 {
		return strconv.Itoa(clusters)
	}
	return fmt.Sprintf("%d of %d", clusters, limit)
}

func decisionLines(d *events.Decision, wide bool) [][2]string {
	if d == nil {
		return nil
	}
	var lines [][2]string
	if d.Rule != "" {
		lines = append(lines, [2]string{"RULE", cli.Numbered(d.RuleNumber, d.Rule)})
	}
	lines = append(lines, [2]string{"POOL", d.Pool}, [2]string{"SELECTOR", d.LabelSelector})
	if wide && d.Sequence > 0 {
		lines = append(lines, [2]string{"SEQUENCE", strconv.FormatInt(d.Sequence, 10)})
	}
	return lines
}

// Pending is a request whose answer is not shown: it was sent with --no-wait, or was not published or not answered
// in time. In the latter cases, Error is set.
type Pending struct {
	RequestID string          `json:"requestID"`
	RuntimeID string          `json:"runtimeID,omitempty"`
	Binding   string          `json:"binding,omitempty"`
	Stream    string          `json:"stream"`
	Subject   string          `json:"subject"`
	Waiting   *events.Waiting `json:"waiting,omitempty"`
	Error     *cli.LineError  `json:"error,omitempty"`
}

// PendingOf returns the view of an event that is not answered yet.
func PendingOf(e events.Event, s events.Subjects) Pending {
	e = e.Addressed()
	return Pending{
		RequestID: e.ID, RuntimeID: e.RuntimeID, Binding: e.Binding,
		Stream: events.StreamReplies, Subject: e.ReplySubject(s),
	}
}

// Show writes where the answer will be.
func (v Pending) Show(w io.Writer, _ bool) {
	whom := [2]string{"RUNTIME", v.RuntimeID}
	if v.Binding != "" {
		whom = [2]string{"BINDING", v.Binding}
	}
	state := "published"
	if v.Error != nil {
		state = cmp.Or(waitsFor(v.Waiting), "not answered yet")
	}
	cli.Pairs(w, [][2]string{{"STATUS", state}, {"REQUEST", v.RequestID}, whom, {"ANSWER", v.Subject + " in " + v.Stream}})
}

func waitsFor(w *events.Waiting) string {
	if w == nil {
		return ""
	}
	return "waits (" + string(w.Reason) + ")"
}
