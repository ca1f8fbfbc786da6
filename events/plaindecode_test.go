package events

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"pgregory.net/rapid"
)

const (
	plainProvision = `{"specversion":"1.0","id":"req-1","source":"/keb","type":"hap.provision.v1","datacontenttype":"application/json",` +
		`"traceparent":"p","tracestate":"s","replayof":"r","dataschema":"d","subject":"x","time":"y",` +
		`"data":{"runtimeID":"rt-1","globalAccountID":"ga-1","plan":"aws","platformRegion":"cf-eu11","hyperscalerRegion":"eu-central-1",` +
		`"provider":"aws","shootName":"c-3fa2","deadline":"2026-11-20T12:00:00.5Z","replyTo":"_INBOX.a.b",` +
		`"cluster":{"name":"c","namespace":"n","labels":{"a":"b","ä":"€😀"},"purposes":["mcp",""]},` +
		`"interface":{"path":"cap.interface.x","revision":"0.1.0"}}}`
	plainDeprovision = `{"specversion":"1.0","id":"req-1","source":"/keb","type":"hap.deprovision.v1",` +
		`"data":{"runtimeID":"rt-1","globalAccountID":"ga-1","shootName":"c-3fa2","replyTo":"_INBOX.a"}}`
)

func plainSubject(message string) string {
	if strings.Contains(message, "hap.deprovision.v1") {
		return "hap.v1.deprovision.ga-1"
	}
	return "hap.v1.provision.ga-1"
}

type failer interface {
	Helper()
	Fatalf(format string, args ...any)
}

// sameAsAny fails if decodePlain and decodeAny return different events. It reports whether decodePlain
// returned one.
func sameAsAny(t failer, subject string, header nats.Header, message []byte) bool {
	t.Helper()
	got, ok := decodePlain(subject, header, message)
	if !ok {
		return false
	}
	want, err := decodeAny(subject, header, message)
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Fatalf("%q on %s\nplain %+v\nany   %+v\n%v", message, subject, got, want, err)
	}
	return true
}

// Publishers send these. If decodePlain refused one, only the time of decoding would show it.
func TestPlainIsRead(t *testing.T) {
	t.Parallel()
	header := nats.Header{"Content-Type": {ContentType}, "traceparent": {"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}}
	for name, message := range map[string]string{
		"provision":   plainProvision,
		"deprovision": plainDeprovision,
		"data first":  `{"data":{"globalAccountID":"ga-1","plan":"aws","runtimeID":"rt-1"},"id":"1","source":"/s","specversion":"1.0","type":"hap.provision.v1"}`,
		"least":       `{"specversion":"1.0","id":"1","source":"/s","type":"hap.provision.v1","data":{"runtimeID":"rt-1","globalAccountID":"ga-1","plan":"aws"}}`,
		"empty": `{"specversion":"1.0","id":"1","source":"/s","type":"hap.provision.v1","data":{"runtimeID":"rt-1","globalAccountID":"ga-1","plan":"aws",` +
			`"provider":"","cluster":{"labels":{},"purposes":[]}}}`,
		"unknown account": strings.Replace(plainDeprovision, `"globalAccountID":"ga-1",`, "", 1),
		"white space": "\r\n\t " + strings.NewReplacer(`{`, "{ ", `}`, " }", `,"`, " ,\n\t\"", `":`, "\" :\r\n", `[`, "[ ", `]`, " ]").
			Replace(plainProvision) + "\n\n",
		"as long as can be": plainProvision + strings.Repeat(" ", maxPlain-len(plainProvision)),
	} {
		if !sameAsAny(t, plainSubject(message), header, []byte(message)) {
			t.Errorf("%s is not plain: %s", name, message)
		}
	}
}

// The events that EncodeEvent writes are plain, unless a text in them needs escapes.
func TestPlainWhatIsWritten(t *testing.T) {
	t.Parallel()
	id := rapid.StringMatching(`[A-Za-z0-9]([-A-Za-z0-9_]{0,8}[A-Za-z0-9])?`)
	label := rapid.StringMatching(`([A-Za-z0-9]([-A-Za-z0-9_.]{0,8}[A-Za-z0-9])?)?`)
	name := rapid.SampledFrom([]string{"", "c-3fa2"})
	text := rapid.StringMatching(`[ !#-\[\]-~äß€😀\x{2028}\x{fffd}]{1,12}`)
	provisions := rapid.MakeCustom[Provision](rapid.MakeConfig{ // whatever a provision may have, and will
		Types: map[reflect.Type]*rapid.Generator[any]{
			reflect.TypeFor[time.Time]():         oddTimes(rapid.Int64Range(0, 4e9)).AsAny(),
			reflect.TypeFor[map[string]string](): rapid.MapOfN(text, text, 0, 8).AsAny(),
			reflect.TypeFor[[]string]():          rapid.SliceOfN(text, 0, 8).AsAny(),
		},
		Kinds: map[reflect.Kind]*rapid.Generator[any]{reflect.String: label.AsAny()},
		Fields: map[reflect.Type]map[string]*rapid.Generator[any]{
			reflect.TypeFor[Provision](): {
				"RuntimeID": id.AsAny(), "GlobalAccountID": id.AsAny(), "Plan": id.AsAny(),
				"ShootName": name.AsAny(), "ReplyTo": rapid.SampledFrom([]string{"", "_INBOX.a.b"}).AsAny(),
			},
			reflect.TypeFor[Cluster]():   {"Name": name.AsAny(), "Namespace": name.AsAny()},
			reflect.TypeFor[Interface](): {"Path": text.AsAny(), "Revision": text.AsAny()},
		},
	})
	rapid.Check(t, func(t *rapid.T) {
		e := Event{ID: id.Draw(t, "id"), Source: text.Draw(t, "source"), Traceparent: "p", Tracestate: "s"}
		if p := provisions.Draw(t, "provision"); rapid.Bool().Draw(t, "is one") {
			e.Type, e.Provision = TypeProvision, &p
		} else {
			e.Type = TypeDeprovision
			e.Deprovision = &Deprovision{RuntimeID: p.RuntimeID, GlobalAccountID: p.GlobalAccountID, ShootName: p.ShootName, ReplyTo: p.ReplyTo}
		}
		message, err := EncodeEvent(e)
		if err != nil {
			t.Fatal(err)
		}
		subjects, err := NewSubjects("")
		if err != nil {
			t.Fatal(err)
		}
		if !sameAsAny(t, e.subject(subjects), nil, message) {
			t.Fatalf("%s is not plain", message)
		}
	})
}

// Texts that are put into messages; some of them keep the message valid.
var odd = []string{
	`"`, `\`, `\u0069`, `\"`, "\x00", "\x1f", "\x7f", "\n", " ", "\t", "\v", "\x80", "\xff", "\xc3", "\xed\xa0\x80", "ä", "\ufeff", "\ufffd", "\u2028",
	`{`, `}`, `[`, `]`, `,`, `:`, `0`, `-`, `Z`, `A`, `.`, `null`, `true`, `{}`, `[]`, `""`, `1e3`, `"x":`, `,"x":1`, `,"id":"req-1"`, `,"plan":"aws"`,
	`,"a":"b"`, `"x",`, `"x":"y",`, `"time":"z",`, `"type":`, `"cluster":{},`, `"labels":{"a":"a","a":"a"},`, `"purposes":[null],`, `/**/`, `'`,
	`"deadline":"2026-11-20T1:00:00Z",`, `"deadline":"2026-11-20T12:00:00,5Z",`, `"deadline":"2026-11-20T12:00:00+01:00",`, `"deadline":"2026-11-20T24:00:00Z",`,
	`"deadline":"0000-01-01T00:00:00Z",`, `"deadline":"2026-11-20t12:00:00Z",`, `"deadline":"",`, `"deadline":"0001-01-01T00:00:00Z",`,
}

// TestPlainEveryPlace inserts each odd text at each place of a message, replaces the byte there with
// it, and deletes the byte, or everything up to it.
func TestPlainEveryPlace(t *testing.T) {
	t.Parallel()
	for name, message := range map[string]string{"provision": plainProvision, "deprovision": plainDeprovision} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			read, unsure := 0, 0
			try := func(message string) {
				if sameAsAny(t, "hap.v1."+name+".ga-1", nil, []byte(message)) {
					read++
				} else {
					unsure++
				}
			}
			for at := range len(message) {
				for _, with := range odd {
					try(message[:at] + with + message[at:])
					try(message[:at] + with + message[at+1:])
				}
				try(message[:at] + message[at+1:])
				try(message[:at])
				try(message[at:])
			}
			if read < 500 || unsure < 500 {
				t.Errorf("%d read and %d not show nothing", read, unsure)
			}
		})
	}
}

// TestPlainMembers shuffles, repeats, renames, drops and changes members at every depth.
func TestPlainMembers(t *testing.T) {
	t.Parallel()
	values := rapid.SampledFrom(append(slices.Clone(odd), `"a"`, `"aws"`, `"ga-1"`, `"hap.provision.v1"`, `"hap.release.v1"`, `"1.0"`,
		`{"a":"b"}`, `["a"]`, `"2026-11-20T12:00:00Z"`, `{"path":"x"}`, `{"name":"c"}`, `"_INBOX.a"`, `"_INBOX.*"`, `"-"`))
	object := func(t *rapid.T, members ...string) string {
		members = rapid.Permutation(members).Draw(t, "order")
		for range rapid.IntRange(0, 1).Draw(t, "changes") {
			at := rapid.IntRange(0, len(members)-1).Draw(t, "at")
			name, _, _ := strings.Cut(members[at], ":")
			switch rapid.IntRange(0, 3).Draw(t, "change") {
			case 0:
				members = slices.Delete(members, at, at+1)
			case 1:
				members = append(members, members[at])
			case 2:
				members[at] = name + ":" + values.Draw(t, "value")
			default:
				members[at] = strings.Replace(members[at], name, rapid.SampledFrom([]string{`"time"`, `"plan"`, `"Plan"`, `"x"`, `"\u0069d"`}).Draw(t, "name"), 1)
			}
		}
		return "{" + strings.Join(members, rapid.SampledFrom([]string{",", " , ", ",\n"}).Draw(t, "comma")) + "}"
	}
	rapid.Check(t, func(t *rapid.T) {
		kind := rapid.SampledFrom([]string{"provision", "deprovision", "release", "resolve"}).Draw(t, "kind")
		members := []string{`"runtimeID":"rt-1"`, `"globalAccountID":"ga-1"`, `"replyTo":"_INBOX.a"`}
		if kind != "deprovision" {
			members = append(members, `"plan":"aws"`, `"deadline":"2026-11-20T12:00:00Z"`,
				`"cluster":`+object(t, `"name":"c"`, `"labels":`+object(t, `"a":"b"`, `"c":"d"`), `"purposes":["a","b"]`),
				`"interface":`+object(t, `"path":"x"`, `"revision":"y"`))
		}
		message := object(t, `"specversion":"1.0"`, `"id":"req-1"`, `"source":"/s"`, `"type":"hap.`+kind+`.v1"`, `"subject":"x"`, `"data":`+object(t, members...))
		sameAsAny(t, fmt.Sprintf("hap.v1.%s.ga-1", kind), nil, []byte(message))
	})
}

// decodePlain leaves invalid, unusual and long messages to decodeAny.
func TestPlainIsNotSure(t *testing.T) {
	t.Parallel()
	for name, message := range map[string]string{
		"too long":            plainProvision + strings.Repeat(" ", maxPlain-len(plainProvision)+1),
		"escapes":             strings.Replace(plainProvision, `"aws"`, `"\u0061ws"`, 1),
		"an unknown member":   strings.Replace(plainProvision, `"plan"`, `"new":1,"plan"`, 1),
		"another kind":        `{"specversion":"1.0","id":"1","source":"/s","type":"hap.resolve.v1","data":{"runtimeID":"rt-1","interface":{"path":"x"}}}`,
		"another time zone":   strings.Replace(plainProvision, ".5Z", "+01:00", 1),
		"a plan given back":   strings.Replace(plainDeprovision, `"runtimeID"`, `"plan":"aws","runtimeID"`, 1),
		"no data":             `{"specversion":"1.0","id":"1","source":"/s","type":"hap.deprovision.v1"}`,
		"another global acc.": strings.Replace(plainProvision, "ga-1", "ga-2", 1),
	} {
		if event, ok := decodePlain(plainSubject(message), nil, []byte(message)); ok {
			t.Errorf("%s: %+v", name, event)
		}
	}
}

// The strings of an event do not change when the connection reads the next message into the buffer of
// this one.
func TestPlainKeepsItsOwn(t *testing.T) {
	t.Parallel()
	message := []byte(plainProvision)
	event, ok := decodePlain("hap.v1.provision.ga-1", nil, message)
	if !ok {
		t.Fatal("not plain")
	}
	clear(message)
	if want, err := decodeAny("hap.v1.provision.ga-1", nil, []byte(plainProvision)); err != nil || !reflect.DeepEqual(event, want) {
		t.Errorf("%+v, %v", event, err)
	}
}

// Not parallel: it counts the allocations of all goroutines.
func TestPlainDecodeAllocations(t *testing.T) {
	for name, test := range map[string]struct {
		message string
		most    float64
	}{
		"provision":   {`{"specversion":"1.0","id":"1","source":"/s","type":"hap.provision.v1","data":{"runtimeID":"rt-1","globalAccountID":"ga-1","plan":"aws"}}`, 2},
		"full":        {plainProvision, 10},
		"deprovision": {plainDeprovision, 3},
	} {
		message, subject := []byte(test.message), plainSubject(test.message)
		if got := testing.AllocsPerRun(100, func() { _, _ = Decode(subject, nil, message) }); got > test.most {
			t.Errorf("%s: %v allocations, at most %v expected", name, got, test.most)
		}
	}
}

func FuzzPlainDecode(f *testing.F) {
	f.Add("hap.v1.provision.ga-1", []byte(plainProvision))
	f.Add("hap.v1.deprovision.ga-1", []byte(plainDeprovision))
	f.Add("hap.v1.deprovision.unknown", []byte(` { "data" : { "runtimeID" : "1" } , "type" : "hap.deprovision.v1" , "specversion" : "1.0" , "id" : "1" , "source" : "s" } `))
	f.Fuzz(func(t *testing.T, subject string, message []byte) {
		sameAsAny(t, subject, nil, message)
	})
}

func BenchmarkDecode(b *testing.B) {
	header := nats.Header{
		"Content-Type": {ContentType}, "Nats-Msg-Id": {"provision/1"}, "Nats-Expected-Stream": {StreamEvents},
		"traceparent": {"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"},
	}
	provision := Event{Type: TypeProvision, ID: "b3c1a5e2-88a1-4f3a-9c1d-2f0c5a1b7e66", Source: "/keb", Provision: &Provision{
		RuntimeID: "4a1f3c52-0c3c-4a2b-8a0e-6a3d3d0f9b11", GlobalAccountID: "ga-1", Plan: "aws",
		PlatformRegion: "cf-eu11", HyperscalerRegion: "eu-central-1", ShootName: "c-3fa2",
	}}
	cluster := provision
	cluster.Provision = new(*provision.Provision)
	cluster.Provision.Cluster = &Cluster{Name: "c", Namespace: "n", Labels: map[string]string{"a": "b", "c": "d"}}
	deprovision := Event{Type: TypeDeprovision, ID: provision.ID, Source: "/keb", Deprovision: &Deprovision{
		RuntimeID: provision.Provision.RuntimeID, GlobalAccountID: "ga-1", ShootName: "c-3fa2",
	}}
	for _, bench := range []struct {
		name  string
		event Event
	}{{"provision", provision}, {"cluster", cluster}, {"deprovision", deprovision}} {
		message, err := EncodeEvent(bench.event)
		if err != nil {
			b.Fatal(err)
		}
		subject := plainSubject(string(message))
		for _, way := range []struct {
			name   string
			decode func(string, nats.Header, []byte) (Event, error)
		}{{"Decode", Decode}, {"reflection", decodeAny}} {
			b.Run(bench.name+"/"+way.name, func(b *testing.B) {
				b.ReportAllocs()
				b.SetBytes(int64(len(message)))
				for b.Loop() {
					if _, err := way.decode(subject, header, message); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
