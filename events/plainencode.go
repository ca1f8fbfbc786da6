package events

import (
	"bytes"
	"sync"
)

// encoding keeps buffers, of up to mostKept bytes each: to write a reply allocates
// the reply and nothing else.
var encoding = sync.Pool{New: func() any { return new([]byte) }}

const mostKept = 16 << 10

// encodePlain writes a reply that was checked as encodeAny does, byte for byte and some
// times faster, unless something in it is unusual.
func encodePlain(r *Reply, source string) ([]byte, bool) {
	buffer, _ := encoding.Get().(*[]byte)
	w := plainWriter{out: append((*buffer)[:0], `{"specversion":"`+specVersion+`","id":"`...)}
	w.out = append(w.out, r.RequestID...) // neither an id nor a known status needs escapes
	w.out = append(w.out, '/')
	w.out = append(w.out, r.Status...)
	w = w.raw('"').text("source", source)
	w.out = append(w.out, `,"type":"`+TypeReply+`","datacontenttype":"application/json","data":{`...)
	w = w.reply(r).end().end()
	data := bytes.Clone(w.out)
	if cap(w.out) <= mostKept {
		*buffer = w.out
		encoding.Put(buffer)
	}
	return data, !w.unsure
}

func (w plainWriter) reply(r *Reply) plainWriter {
	w = w.text("requestID", r.RequestID).
		textGiven("runtimeID", r.RuntimeID).
		text("status", string(r.Status)).
		textGiven("for", string(r.For)).
		textGiven("globalAccountID", r.GlobalAccountID).
		textGiven("plan", r.Plan).
		textGiven("provider", r.Provider).
		textGiven("shootName", r.ShootName).
		cluster(r.Cluster).
		waiting(r.Waiting).
		binding(r.Binding)
	if r.Clusters != nil {
		w = w.whole("clusters", int64(*r.Clusters))
	}
	return w.wholeGiven("limit", int64(r.Limit)).
		decision(r.Decision).
		networks(r.Network).
		truthGiven("networkPending", r.NetworkPending).
		patch(r.ShootPatch).
		mergePatch(r.ShootMergePatch).
		implementation(r.Implementation).
		truthGiven("markedDirty", r.MarkedDirty).
		truthGiven("draining", r.Draining).
		fault(r.Error)
}

func (w plainWriter) cluster(c *Cluster) plainWriter {
	if c == nil {
		return w
	}
	w = w.object("cluster").textGiven("name", c.Name).textGiven("namespace", c.Namespace)
	if len(c.Labels) > 0 {
		w = w.textsByName("labels", c.Labels)
	}
	if len(c.Purposes) > 0 {
		w = w.texts("purposes", c.Purposes)
	}
	return w.end()
}

func (w plainWriter) waiting(waiting *Waiting) plainWriter {
	if waiting == nil {
		return w
	}
	return w.object("waiting").
		text("reason", string(waiting.Reason)).
		wholeGiven("position", int64(waiting.Position)).
		timeGiven("deadline", waiting.Deadline).
		end()
}

func (w plainWriter) binding(b *Binding) plainWriter {
	if b == nil {
		return w
	}
	return w.object("binding").
		text("name", b.Name).
		textGiven("namespace", b.Namespace).
		textGiven("kind", b.Kind).
		textGiven("hyperscalerType", b.HyperscalerType).
		truth("shared", b.Shared).
		truth("euAccess", b.EUAccess).
		truth("claimed", b.Claimed).
		wholeGiven("generation", b.Generation).
		end()
}

func (w plainWriter) decision(d *Decision) plainWriter {
	if d == nil {
		return w
	}
	return w.object("decision").
		wholeGiven("sequence", d.Sequence).
		textGiven("rule", d.Rule).
		wholeGiven("ruleNumber", int64(d.RuleNumber)).
		textGiven("pool", d.Pool).
		textGiven("labelSelector", d.LabelSelector).
		considered(d.Considered).
		textGiven("platformRegion", d.PlatformRegion).
		textGiven("hyperscalerRegion", d.HyperscalerRegion).
		passed(d.Passed).
		textGiven("origin", d.Origin).
		textGiven("strategy", d.Strategy).
		attempts(d.Attempts).
		times(d.Times).
		changed(d.Changed).
		end()
}

func (w plainWriter) considered(list []Considered) plainWriter {
	if len(list) == 0 {
		return w
	}
	w = w.array("considered")
	for _, c := range list {
		w = w.element().
			text("binding", c.Binding).
			whole("clusters", int64(c.Clusters)).
			text("verdict", c.Verdict).
			truthGiven("own", c.Own).
			end()
	}
	return w.endArray()
}

func (w plainWriter) passed(list []Passed) plainWriter {
	if len(list) == 0 {
		return w
	}
	w = w.array("passed")
	for _, p := range list {
		w = w.element().text("rule", p.Rule).wholeGiven("ruleNumber", int64(p.RuleNumber)).text("why", p.Why).end()
	}
	return w.endArray()
}

func (w plainWriter) attempts(list []Attempt) plainWriter {
	if len(list) == 0 {
		return w
	}
	w = w.array("attempts")
	for _, a := range list {
		w = w.element().text("binding", a.Binding).text("result", a.Result).end()
	}
	return w.endArray()
}

func (w plainWriter) times(t *Times) plainWriter {
	if t == nil {
		return w
	}
	return w.object("times").
		timeGiven("published", t.Published).
		timeGiven("began", t.Began).
		timeGiven("waiting", t.Waiting).
		timeGiven("decided", t.Decided).
		timeGiven("claimed", t.Claimed).
		end()
}

func (w plainWriter) changed(c *Changed) plainWriter {
	if c == nil {
		return w
	}
	return w.object("changed").
		textGiven("runtime", c.Runtime).
		textGiven("account", c.Account).
		textGiven("superseded", c.Superseded).
		end()
}

func (w plainWriter) networks(list []Network) plainWriter {
	if len(list) == 0 {
		return w
	}
	w = w.array("network")
	for i := range list {
		n := &list[i]
		w = w.element().text("rule", n.Rule).text("id", n.ID).text("cidr", n.CIDR).texts("paths", n.Paths).end()
	}
	return w.endArray()
}

// patch writes values that are texts, which is what workers put there.
func (w plainWriter) patch(list []PatchOperation) plainWriter {
	if len(list) == 0 {
		return w
	}
	w = w.array("shootPatch")
	for i := range list {
		operation := &list[i]
		w = w.element().text("op", operation.Op).text("path", operation.Path)
		switch value := operation.Value.(type) {
		case nil:
		case string:
			w = w.text("value", value)
		default:
			w.unsure = true
		}
		w = w.end()
	}
	return w.endArray()
}

// mergePatch writes objects of texts and objects, which is what MergePatch returns.
func (w plainWriter) mergePatch(patch map[string]any) plainWriter {
	if len(patch) == 0 {
		return w
	}
	return w.member("shootMergePatch").tree(patch)
}

func (w plainWriter) implementation(i *Implementation) plainWriter {
	if i == nil {
		return w
	}
	w = w.object("implementation").text("path", i.Path).text("revision", i.Revision)
	if len(i.Inject) > 0 {
		w = w.array("inject")
		for _, inject := range i.Inject {
			w = w.element().text("name", inject.Name).text("id", inject.ID).end()
		}
		w = w.endArray()
	}
	return w.end()
}

func (w plainWriter) fault(e *ReplyError) plainWriter {
	if e == nil {
		return w
	}
	return w.object("error").
		text("code", string(e.Code)).
		text("message", e.Message).
		truth("retryable", e.Retryable).
		end()
}
