package events

import (
	"bytes"
	"sync"

	"github.com/hap-worker/hap-worker/events/internal/plain"
)

// encoding keeps buffers for reuse, so that encoding a reply allocates little besides the result. A buffer of more
// than mostKept bytes is not kept.
var encoding = sync.Pool{New: func() any { return new([]byte) }}

const mostKept = 16 << 10

// encodePlain encodes a checked reply to the same bytes as encodeAny, several times faster. It returns
// false if something in the reply is unusual; the caller then uses encodeAny.
func encodePlain(r *Reply, source string) ([]byte, bool) {
	buffer, _ := encoding.Get().(*[]byte)
	w := plain.Writer{Out: append((*buffer)[:0], `{"specversion":"`+SpecVersion+`","id":"`...)}
	w.Out = append(w.Out, r.RequestID...) // neither an id nor a known status needs escapes
	w.Out = append(w.Out, '/')
	w.Out = append(w.Out, r.Status...)
	w = w.Raw('"').Text("source", source)
	w.Out = append(w.Out, `,"type":"`+TypeReply+`","datacontenttype":"application/json","data":{`...)
	w = writeReply(w, r).End().End()
	data := bytes.Clone(w.Out)
	if cap(w.Out) <= mostKept {
		*buffer = w.Out
		encoding.Put(buffer)
	}
	return data, !w.Unsure
}

func writeReply(w plain.Writer, r *Reply) plain.Writer {
	w = w.Text("requestID", r.RequestID).
		TextGiven("runtimeID", r.RuntimeID).
		Text("status", string(r.Status)).
		TextGiven("for", string(r.For)).
		TextGiven("globalAccountID", r.GlobalAccountID).
		TextGiven("plan", r.Plan).
		TextGiven("provider", r.Provider).
		TextGiven("shootName", r.ShootName)
	w = writeBinding(writeWaiting(writeCluster(w, r.Cluster), r.Waiting), r.Binding)
	if r.Clusters != nil {
		w = w.Whole("clusters", int64(*r.Clusters))
	}
	w = writeDecision(w.WholeGiven("limit", int64(r.Limit)), r.Decision)
	w = writeNetworks(w, r.Network).TruthGiven("networkPending", r.NetworkPending)
	w = writeMergePatch(writePatch(w, r.ShootPatch), r.ShootMergePatch)
	w = writeImplementation(w, r.Implementation).
		TruthGiven("markedDirty", r.MarkedDirty).
		TruthGiven("draining", r.Draining)
	return writeFault(w, r.Error)
}

func writeCluster(w plain.Writer, c *Cluster) plain.Writer {
	if c == nil {
		return w
	}
	w = w.Object("cluster").TextGiven("name", c.Name).TextGiven("namespace", c.Namespace)
	if len(c.Labels) > 0 {
		w = w.TextsByName("labels", c.Labels)
	}
	if len(c.Purposes) > 0 {
		w = w.Texts("purposes", c.Purposes)
	}
	return w.End()
}

func writeWaiting(w plain.Writer, waiting *Waiting) plain.Writer {
	if waiting == nil {
		return w
	}
	return w.Object("waiting").
		Text("reason", string(waiting.Reason)).
		WholeGiven("position", int64(waiting.Position)).
		TimeGiven("deadline", waiting.Deadline).
		End()
}

func writeBinding(w plain.Writer, b *Binding) plain.Writer {
	if b == nil {
		return w
	}
	return w.Object("binding").
		Text("name", b.Name).
		TextGiven("namespace", b.Namespace).
		TextGiven("kind", b.Kind).
		TextGiven("hyperscalerType", b.HyperscalerType).
		Truth("shared", b.Shared).
		Truth("euAccess", b.EUAccess).
		Truth("claimed", b.Claimed).
		WholeGiven("generation", b.Generation).
		End()
}

func writeDecision(w plain.Writer, d *Decision) plain.Writer {
	if d == nil {
		return w
	}
	w = w.Object("decision").
		WholeGiven("sequence", d.Sequence).
		TextGiven("rule", d.Rule).
		WholeGiven("ruleNumber", int64(d.RuleNumber)).
		TextGiven("pool", d.Pool).
		TextGiven("labelSelector", d.LabelSelector)
	w = writeConsidered(w, d.Considered).
		TextGiven("platformRegion", d.PlatformRegion).
		TextGiven("hyperscalerRegion", d.HyperscalerRegion)
	w = writePassed(w, d.Passed).
		TextGiven("origin", d.Origin).
		TextGiven("strategy", d.Strategy)
	return writeChanged(writeTimes(writeAttempts(w, d.Attempts), d.Times), d.Changed).End()
}

func writeConsidered(w plain.Writer, list []Considered) plain.Writer {
	if len(list) == 0 {
		return w
	}
	w = w.Array("considered")
	for _, c := range list {
		w = w.Element().
			Text("binding", c.Binding).
			Whole("clusters", int64(c.Clusters)).
			Text("verdict", c.Verdict).
			TruthGiven("own", c.Own).
			End()
	}
	return w.EndArray()
}

func writePassed(w plain.Writer, list []Passed) plain.Writer {
	if len(list) == 0 {
		return w
	}
	w = w.Array("passed")
	for _, p := range list {
		w = w.Element().Text("rule", p.Rule).WholeGiven("ruleNumber", int64(p.RuleNumber)).Text("why", p.Why).End()
	}
	return w.EndArray()
}

func writeAttempts(w plain.Writer, list []Attempt) plain.Writer {
	if len(list) == 0 {
		return w
	}
	w = w.Array("attempts")
	for _, a := range list {
		w = w.Element().Text("binding", a.Binding).Text("result", a.Result).End()
	}
	return w.EndArray()
}

func writeTimes(w plain.Writer, t *Times) plain.Writer {
	if t == nil {
		return w
	}
	return w.Object("times").
		TimeGiven("published", t.Published).
		TimeGiven("began", t.Began).
		TimeGiven("waiting", t.Waiting).
		TimeGiven("decided", t.Decided).
		TimeGiven("claimed", t.Claimed).
		End()
}

func writeChanged(w plain.Writer, c *Changed) plain.Writer {
	if c == nil {
		return w
	}
	return w.Object("changed").
		TextGiven("runtime", c.Runtime).
		TextGiven("account", c.Account).
		TextGiven("superseded", c.Superseded).
		TextGiven("by", c.By).
		End()
}

func writeNetworks(w plain.Writer, list []Network) plain.Writer {
	if len(list) == 0 {
		return w
	}
	w = w.Array("network")
	for i := range list {
		n := &list[i]
		w = w.Element().Text("rule", n.Rule).Text("id", n.ID).Text("cidr", n.CIDR).Texts("paths", n.Paths).End()
	}
	return w.EndArray()
}

// writePatch supports only strings as values; workers write no others.
func writePatch(w plain.Writer, list []PatchOperation) plain.Writer {
	if len(list) == 0 {
		return w
	}
	w = w.Array("shootPatch")
	for i := range list {
		operation := &list[i]
		w = w.Element().Text("op", operation.Op).Text("path", operation.Path)
		switch value := operation.Value.(type) {
		case nil:
		case string:
			w = w.Text("value", value)
		default:
			w.Unsure = true
		}
		w = w.End()
	}
	return w.EndArray()
}

// writeMergePatch supports only strings and objects as values; MergePatch returns no others.
func writeMergePatch(w plain.Writer, patch map[string]any) plain.Writer {
	if len(patch) == 0 {
		return w
	}
	return w.Member("shootMergePatch").Tree(patch)
}

func writeImplementation(w plain.Writer, i *Implementation) plain.Writer {
	if i == nil {
		return w
	}
	w = w.Object("implementation").Text("path", i.Path).Text("revision", i.Revision)
	if len(i.Inject) > 0 {
		w = w.Array("inject")
		for _, inject := range i.Inject {
			w = w.Element().Text("name", inject.Name).Text("id", inject.ID).End()
		}
		w = w.EndArray()
	}
	return w.End()
}

func writeFault(w plain.Writer, e *ReplyError) plain.Writer {
	if e == nil {
		return w
	}
	return w.Object("error").
		Text("code", string(e.Code)).
		Text("message", e.Message).
		Truth("retryable", e.Retryable).
		End()
}
