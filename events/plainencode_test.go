package events

import (
	"bytes"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
	"pgregory.net/rapid"

	"github.com/hap-worker/hap-worker/events/contract"
)

func plainReply() Reply {
	at := time.Date(2026, 11, 20, 12, 0, 0, 123456789, time.UTC)
	return Reply{
		RequestID: "req-1", RuntimeID: "rt-1", Status: StatusAssigned, GlobalAccountID: "ga-1", Plan: "aws", Provider: "aws", ShootName: "c-3fa2",
		Binding:  &Binding{Name: "aws-7", Namespace: "garden-kyma", Kind: "CredentialsBinding", HyperscalerType: "aws", Claimed: true, Generation: 3},
		Clusters: new(12), Limit: 180,
		Decision: &Decision{
			Sequence: 4711, Rule: "aws", RuleNumber: 1, Pool: "aws", LabelSelector: "hyperscalerType=aws,!dirty,tenantName=ga-1",
			Considered:     []Considered{{Binding: "aws-3", Clusters: 180, Verdict: "at-limit"}, {Binding: "aws-7", Clusters: 11, Verdict: "chosen", Own: true}},
			PlatformRegion: "cf-eu11", HyperscalerRegion: "eu-central-1", Origin: "own", Strategy: "fill-first",
			Times: &Times{Published: at, Began: at.Add(time.Millisecond), Decided: at.Add(time.Second)},
		},
		ShootPatch:      []PatchOperation{{Op: "add", Path: "/spec/credentialsBindingName", Value: "aws-7"}},
		ShootMergePatch: map[string]any{"spec": map[string]any{"credentialsBindingName": "aws-7"}},
	}
}

// oddTimes are moments in UTC, with and without a fraction, and the zero time.
func oddTimes(seconds *rapid.Generator[int64]) *rapid.Generator[time.Time] {
	return rapid.Custom(func(t *rapid.T) time.Time {
		if rapid.Bool().Draw(t, "zero") {
			return time.Time{}
		}
		return time.Unix(seconds.Draw(t, "seconds"), rapid.SampledFrom([]int64{0, 1, 5e8, 123456000}).Draw(t, "ns")).UTC()
	})
}

// oddTexts prefer characters that JSON or its writers treat specially.
func oddTexts() *rapid.Generator[string] {
	return rapid.OneOf(
		rapid.SampledFrom([]string{"", "aws-7", "cf-eu11", "<a href='x'>&", "\u2028\u2029", "\x00\x1f\x7f\b\f\n\r\t", `"\/`, "\xff", "a\xc3", "\xed\xa0\x80", "😀", "ä", "\ufffd", "\ufeff"}),
		rapid.String(),
		rapid.Map(rapid.SliceOf(rapid.Byte()), func(b []byte) string { return string(b) }),
	)
}

// oddReplies generates replies with odd values in every member, present and future, except ids and
// status.
func oddReplies() *rapid.Generator[Reply] {
	ids := rapid.StringMatching(`[A-Za-z0-9]([-A-Za-z0-9_]{0,8}[A-Za-z0-9])?`)
	zones := rapid.SampledFrom([]*time.Location{time.UTC, time.FixedZone("", 3600), time.FixedZone("", -1830), time.FixedZone("", 24*3600), time.FixedZone("", 3601)})
	times := rapid.Custom(func(t *rapid.T) time.Time {
		return oddTimes(rapid.OneOf(rapid.Int64Range(0, 4e9), rapid.Int64Range(-1e11, 1e12))).Draw(t, "time").In(zones.Draw(t, "zone"))
	})
	return rapid.MakeCustom[Reply](rapid.MakeConfig{
		Types: map[reflect.Type]*rapid.Generator[any]{
			reflect.TypeFor[time.Time](): times.AsAny(),
			reflect.TypeFor[Status]():    rapid.SampledFrom([]Status{StatusAssigned, StatusReleased, StatusWaiting, StatusRejected}).AsAny(),
		},
		Kinds: map[reflect.Kind]*rapid.Generator[any]{reflect.String: oddTexts().AsAny()},
		Fields: map[reflect.Type]map[string]*rapid.Generator[any]{
			reflect.TypeFor[Reply](): {"RequestID": ids.AsAny(), "RuntimeID": ids.AsAny(), "ShootMergePatch": oddTrees(3).AsAny()},
			reflect.TypeFor[PatchOperation](): {"Value": rapid.OneOf(oddTexts().AsAny(), oddTexts().AsAny(), rapid.SampledFrom([]any{
				nil, 1, 1.5, math.NaN(), true, []string{"a"}, map[string]any{"b": "<", "a": nil}, (*int)(nil), jsontext.Value(`{ "a" : 1 }`), jsontext.Value(`{`),
			}))},
		},
	})
}

// oddTrees are mostly objects of texts and objects, down to a depth.
func oddTrees(depth int) *rapid.Generator[map[string]any] {
	values := []*rapid.Generator[any]{oddTexts().AsAny(), oddTexts().AsAny(), rapid.SampledFrom([]any{"", nil, 1.5, true, []any{"a"}, map[string]any(nil)})}
	if depth > 0 {
		values = append(values, oddTrees(depth-1).AsAny(), oddTrees(depth-1).AsAny())
	}
	return rapid.MapOfN(oddTexts(), rapid.OneOf(values...), 0, 5)
}

// unusualTree reports whether something in a tree is neither text nor object, or a name no UTF-8.
func unusualTree(tree map[string]any) bool {
	for name, value := range tree {
		inner, object := value.(map[string]any)
		if _, text := value.(string); !utf8.ValidString(name) || !object && !text || unusualTree(inner) {
			return true
		}
	}
	return false
}

// unusual reports whether encodePlain leaves r to encodeAny.
func unusual(r *Reply) bool {
	var times []time.Time
	if r.Waiting != nil {
		times = append(times, r.Waiting.Deadline)
	}
	if r.Decision != nil && r.Decision.Times != nil {
		at := r.Decision.Times
		times = append(times, at.Published, at.Began, at.Waiting, at.Decided, at.Claimed)
	}
	for _, at := range times {
		if _, err := at.MarshalText(); err != nil && !at.IsZero() {
			return true
		}
	}
	for _, operation := range r.ShootPatch {
		if _, text := operation.Value.(string); operation.Value != nil && !text {
			return true
		}
	}
	if unusualTree(r.ShootMergePatch) {
		return true
	}
	if r.Cluster != nil {
		for name := range r.Cluster.Labels {
			if !utf8.ValidString(name) {
				return true
			}
		}
	}
	return false
}

// writesTheSame fails if encodePlain and encodeAny write different bytes, or if encodePlain refuses a
// reply that is not unusual.
func writesTheSame(t failer, r Reply, source string) {
	t.Helper()
	got, sure := encodePlain(&r, source)
	if sure == unusual(&r) {
		t.Fatalf("written: %t, %+v", sure, r)
	}
	if !sure {
		return
	}
	want, err := encodeAny(r, source)
	if err != nil || !bytes.Equal(got, want) {
		t.Fatalf("%+v\nplain %s\nany   %s\n%v", r, got, want, err)
	}
}

func TestPlainReply(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		writesTheSame(t, oddReplies().Draw(t, "reply"), oddTexts().Draw(t, "source"))
	})
}

// Every text that is special to some reader, in every member that holds text.
func TestPlainReplyTexts(t *testing.T) {
	t.Parallel()
	var all strings.Builder
	for c := range rune(0x250) {
		all.WriteRune(c)
	}
	for _, text := range []string{all.String(), "<script>&amp;", "\u2028\u2029", "\xff\xfe", "a\xed\xa0\x80b", "😀", "\ufffd", "\U0010ffff"} {
		writesTheSame(t, replyOf(text, text, 1, 1, math.MaxUint16), text)
	}
}

// Replies of any length, one after another: none overwrites the one before.
func TestPlainReplyIsItsOwn(t *testing.T) {
	t.Parallel()
	var written [][]byte
	var replies []Reply
	for size := 1; size < 4*mostKept; size *= 2 {
		for _, c := range "xy" {
			r := plainReply()
			r.Plan = strings.Repeat(string(c), size)
			data, err := EncodeReply(r, "/s")
			if err != nil {
				t.Fatal(err)
			}
			written, replies = append(written, data), append(replies, r)
		}
	}
	for i, r := range replies {
		if want, err := encodeAny(r, "/s"); err != nil || !bytes.Equal(written[i], want) {
			t.Errorf("%s\ninstead of\n%s\n%v", written[i], want, err)
		}
	}
}

// encodeAny writes what encodePlain refuses, or returns the error.
func TestUnusualReply(t *testing.T) {
	t.Parallel()
	r := plainReply()
	r.ShootPatch[0].Value = []string{"<"}
	if data, err := EncodeReply(r, "/s"); err != nil || !strings.Contains(string(data), `"value":["<"]`) {
		t.Errorf("%s, %v", data, err)
	}
	r = plainReply()
	r.Decision.Times.Began = time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC)
	if data, err := EncodeReply(r, "/s"); err == nil || !strings.Contains(err.Error(), "reply to req-1 cannot be written as JSON") {
		t.Errorf("%s, %v", data, err)
	}
	r = plainReply()
	r.Cluster = &Cluster{Labels: map[string]string{"\xff": "a", "\xfe": "b"}}
	if data, err := EncodeReply(r, "/s"); err == nil {
		t.Errorf("%s has a name twice", data)
	}
}

// Not parallel: it counts the allocations of all goroutines. With the race detector a sync.Pool drops
// some buffers, so that a new one is allocated.
func TestPlainReplyAllocations(t *testing.T) {
	r := plainReply()
	if got := testing.AllocsPerRun(100, func() { _, _ = EncodeReply(r, "/hap-worker") }); got > 5 {
		t.Errorf("%v allocations", got)
	}
}

// replyOf returns a reply with the texts in every member, and with those optional parts whose bit is
// set in shape.
func replyOf(text, name string, n, seconds int64, shape uint16) Reply {
	r := Reply{RequestID: "req-1", RuntimeID: "rt-1", Status: StatusAssigned}
	at := time.Unix(seconds, n).UTC()
	for i, set := range []func(){
		func() { r.GlobalAccountID, r.Plan, r.Provider, r.ShootName = text, name, text, name },
		func() {
			r.Cluster = &Cluster{Name: text, Namespace: name, Labels: map[string]string{name: text, text: name, "x": "y"}, Purposes: []string{text, name}}
		},
		func() { r.Waiting = &Waiting{Reason: WaitingReason(text), Position: int(n), Deadline: at} },
		func() {
			r.Binding = &Binding{Name: text, Namespace: name, Kind: text, HyperscalerType: name, Shared: n > 0, EUAccess: n > 1, Claimed: n > 2, Generation: n}
		},
		func() { r.Clusters, r.Limit = new(int(n)), int(n) },
		func() { r.Decision = &Decision{} },
		func() {
			r.Decision = &Decision{
				Sequence: n, Rule: text, RuleNumber: int(n), Pool: name, LabelSelector: text, PlatformRegion: name, HyperscalerRegion: text, Origin: name, Strategy: text,
				Considered: []Considered{{Binding: text, Clusters: int(n), Verdict: name, Own: n > 0}, {}},
				Passed:     []Passed{{Rule: text, RuleNumber: int(n), Why: name}, {}},
				Attempts:   []Attempt{{Binding: text, Result: name}, {}},
				Times:      &Times{Published: at, Began: at, Waiting: at, Decided: at, Claimed: at},
				Changed:    &Changed{Runtime: text, Account: name, Superseded: text, By: name},
			}
		},
		func() { r.Network = []Network{{Rule: text, ID: name, CIDR: text, Paths: []string{name, text}}, {}} },
		func() { r.ShootPatch = []PatchOperation{{Op: text, Path: name, Value: text}, {Op: name, Path: text}} },
		func() {
			r.ShootMergePatch = map[string]any{text: name, name: map[string]any{text: text, name: map[string]any{}}, "z": "y"}
		},
		func() {
			r.Implementation = &Implementation{Path: text, Revision: name, Inject: []Inject{{Name: text, ID: name}, {}}}
		},
		func() { r.MarkedDirty, r.For = true, Type(text) },
		func() { r.Draining = true },
		func() { r.Error = &ReplyError{Code: contract.Code(name), Message: text, Retryable: n > 0} },
	} {
		if shape&(1<<i) != 0 {
			set()
		}
	}
	return r
}

func FuzzPlainReply(f *testing.F) {
	f.Add("aws-7", "aws", "/hap-worker", int64(3), int64(1_800_000_000), uint16(math.MaxUint16))
	f.Add("<&>\u2028", "\xff", "\x00\"\\", int64(-1), int64(-1<<40), uint16(0x0fdf))
	f.Fuzz(func(t *testing.T, text, name, source string, n, seconds int64, shape uint16) {
		writesTheSame(t, replyOf(text, name, n, seconds, shape), source)
	})
}

func BenchmarkEncodeReply(b *testing.B) {
	released := Reply{
		RequestID: "req-2", RuntimeID: "rt-1", Status: StatusReleased, GlobalAccountID: "ga-1",
		Binding: plainReply().Binding, Clusters: new(11), Limit: 180, Decision: &Decision{Sequence: 4712, Pool: "aws", Times: plainReply().Decision.Times},
	}
	for _, bench := range []struct {
		name  string
		reply Reply
	}{{"assigned", plainReply()}, {"released", released}} {
		for _, way := range []struct {
			name   string
			encode func(Reply, string) ([]byte, error)
		}{{"EncodeReply", EncodeReply}, {"reflection", encodeAny}} {
			b.Run(bench.name+"/"+way.name, func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					if _, err := way.encode(bench.reply, "/hap-worker"); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
