package integration_test

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/hap-worker/hap-worker/events"
	"github.com/hap-worker/hap-worker/ledger/storage"
)

// TestNATSAttack lets each role try every subject of every stream, of the JetStream API
// and of the acknowledgements: as what it publishes on, as a reply subject, as a deliver
// subject and as the destination of a trace. What its rights do not name does not change.
//
// With an account for each role it has no permissions here: what the server publishes
// for it is not held to them, so the imports have to suffice.
func TestNATSAttack(t *testing.T) {
	t.Parallel()
	widen := func(from, export, to string) func(string) string {
		return func(text string) string {
			text = edited(t, text, `{service: "`+export+`", accounts: [`, `{service: "`+export+`", accounts: [`+to+`, `)
			before, after, _ := strings.Cut(text, "users: $"+to+"_USERS\n")
			return before + "users: $" + to + "_USERS\n" + strings.Replace(after, "imports: [\n", "imports: [\n      {service: {account: "+from+`, subject: "`+export+"\"}}\n", 1)
		}
	}
	for _, attack := range []struct {
		name   string
		way    layout
		change func(string) string
		roles  []string
		found  string // part of what is found, "" for nothing
	}{
		{"an account for each role", roleAccounts, nil, roles, ""},
		{"an operator's accounts", byOperator, nil, roles, ""},
		{"one account, a publisher", oneAccount, nil, []string{"PUBLISHER"}, "lacks its configuration"},
		{"one account, a cleanup job", oneAccount, nil, []string{"CLEANUP"}, "lacks its configuration"},
		{"replies for the cleanup job", roleAccounts, widen("HAP_REPLIES", "hap.v1.reply.>", "HAP_CLEANUP"), []string{"CLEANUP"}, "CLEANUP: HAP_REPLIES has another message"},
		{"a purge for publishers", roleAccounts, widen("HAP_REPLIES", "$JS.API.STREAM.PURGE.HAP_REPLIES", "HAP_PUBLISHER"), []string{"PUBLISHER"}, "PUBLISHER: HAP_REPLIES lacks"},
		{"acknowledgements for operators", roleAccounts, widen("HAP_EVENTS", "$JS.ACK.HAP_EVENTS.hap-worker.>", "HAP_OPERATOR"), []string{"OPERATOR"}, "OPERATOR: HAP_EVENTS has another consumer hap-worker"},
		{"an operator's purge for publishers", byOperator, widen("HAP_REPLIES", "$JS.API.STREAM.PURGE.HAP_REPLIES", "HAP_PUBLISHER"), []string{"PUBLISHER"}, "PUBLISHER: HAP_REPLIES lacks"},
		{"the workers' pulls for a shadow", roleAccounts, widen("HAP_EVENTS", "$JS.API.CONSUMER.MSG.NEXT.HAP_EVENTS.hap-worker", "HAP_SHADOW"), []string{"SHADOW"}, "SHADOW: HAP_EVENTS has another consumer hap-worker"},
	} {
		t.Run(attack.name, func(t *testing.T) {
			t.Parallel()
			found := strings.Join(newAttacked(t, attack.way, attack.change).attack(attack.roles, attack.found), "\n")
			if attack.found == "" && found != "" {
				t.Errorf("what a role has no right to:\n%s", found)
			}
			if !strings.Contains(found, attack.found) {
				t.Errorf("the attack does not find that %s, but:\n%s", attack.found, found)
			}
		})
	}
}

// attacked is a server whose streams hold a message each, and whose worker has an event
// in hand.
type attacked struct {
	*guarded
	admins  map[string]jetstream.JetStream // by stream
	targets []string                       // literal subjects
	rights  map[string][]string            // by role
}

func newAttacked(t *testing.T, way layout, change func(string) string) *attacked {
	t.Helper()
	g := &guarded{t: t, layout: way, bare: way != oneAccount}
	g.serve(change, nil)
	a := &attacked{guarded: g, admins: map[string]jetstream.JetStream{}, rights: map[string][]string{}}
	for _, role := range roles {
		a.rights[role] = rights(t, role)
	}
	ctx := t.Context()
	for _, o := range []storage.Options{{Manage: true, AckWait: time.Hour}, {Manage: true, Shadow: true, AckWait: time.Hour}} {
		role := "WORKER"
		if o.Shadow {
			role = "SHADOW"
		}
		js, err := jetstream.New(g.as(role))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := storage.Setup(ctx, js, o); err != nil {
			t.Fatal(err)
		}
		configs, err := o.Streams()
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range configs {
			a.add(c)
		}
	}
	js := a.admins[events.StreamEvents]
	consumer, err := js.Consumer(ctx, events.StreamEvents, events.ConsumerWorker)
	if err != nil {
		t.Fatal(err)
	}
	msg, err := consumer.Next()
	if err != nil {
		t.Fatal(err)
	}
	a.targets = append(a.targets, msg.Reply(), "hap.v1.dead.provision", "$JS.API.INFO", "$JS.API.STREAM.NAMES", "$JS.API.STREAM.LIST", "$JS.API.META.LEADER.STEPDOWN", "$JS.FC.HAP_REPLIES.x.y")
	return a
}

// add stores a message on each subject of a stream and takes what aims at it for a target.
func (a *attacked) add(c jetstream.StreamConfig) {
	a.t.Helper()
	account := c.Name
	if strings.HasPrefix(c.Name, "HAP_SHADOW_") {
		account = "HAP_SHADOW_STREAMS"
	}
	js, err := jetstream.New(a.admin(account))
	if err != nil {
		a.t.Fatal(err)
	}
	a.admins[c.Name] = js
	for _, subject := range c.Subjects {
		target := literal(subject)
		if _, err := js.Publish(a.t.Context(), target, []byte(`{}`)); err != nil {
			a.t.Fatal(err)
		}
		a.targets = append(a.targets, target)
	}
	for _, what := range []string{
		"STREAM.CREATE", "STREAM.UPDATE", "STREAM.DELETE", "STREAM.PURGE", "STREAM.INFO", "STREAM.MSG.GET", "STREAM.MSG.DELETE", "STREAM.SNAPSHOT", "STREAM.RESTORE",
		"STREAM.LEADER.STEPDOWN", "STREAM.PEER.REMOVE", "DIRECT.GET", "CONSUMER.NAMES", "CONSUMER.LIST", "CONSUMER.CREATE",
	} {
		a.targets = append(a.targets, "$JS.API."+what+"."+c.Name)
	}
	for _, name := range []string{events.ConsumerWorker, events.ConsumerShadow, "mine"} {
		for _, what := range []string{"CREATE", "DURABLE.CREATE", "DELETE", "INFO", "MSG.NEXT", "PAUSE", "RESET", "UNPIN", "LEADER.STEPDOWN"} {
			a.targets = append(a.targets, "$JS.API.CONSUMER."+what+"."+c.Name+"."+name)
		}
	}
}

// literal is a subject that a pattern matches.
func literal(pattern string) string {
	return strings.NewReplacer("*", "rt-1", ">", "rt-1.req-1").Replace(pattern)
}

// attack has each role attack, and returns what it changed without a right to. Where
// expected is part of that it waits for it: which stream a heartbeat deletes, and when,
// is decided among the server's goroutines.
func (a *attacked) attack(roles []string, expected string) (found []string) {
	a.t.Helper()
	deadline := time.Now().Add(time.Minute)
	for _, role := range roles {
		before := a.state()
		overheard := a.overhear(role)
		a.tryAll(role)
		a.barrier()
		changed := a.judge(role, before, a.state())
		for !strings.Contains(strings.Join(changed, "\n"), expected) && time.Now().Before(deadline) {
			a.barrier()
			changed = a.judge(role, before, a.state())
		}
		found = append(found, changed...)
		a.tidy()
		for _, sub := range overheard {
			if n, _, err := sub.Pending(); err == nil && n > 0 {
				msg, _ := sub.NextMsg(time.Second)
				found = append(found, fmt.Sprintf("%s: a message for %s reaches the account of another role", role, msg.Subject))
			}
		}
	}
	return found
}

// inbox is a subject that only the attack of a role names.
func inbox(role string) string { return "_INBOX." + strings.ToLower(role) + ".attack" }

// tidy deletes the consumers that an attack left: they would expire during the next one.
func (a *attacked) tidy() {
	a.t.Helper()
	ctx := a.t.Context()
	for name, js := range a.admins {
		stream, err := js.Stream(ctx, name)
		if err != nil {
			continue // state tells
		}
		for consumer := range stream.ConsumerNames(ctx).Name() {
			if consumer == events.ConsumerWorker && strings.HasSuffix(name, "_EVENTS") {
				continue
			}
			if err := stream.DeleteConsumer(ctx, consumer); err != nil && !errors.Is(err, jetstream.ErrConsumerNotFound) {
				a.t.Fatal(err)
			}
		}
	}
}

// overhear listens to the inbox of an attack in the accounts of the other roles.
func (a *attacked) overhear(role string) (subs []*nats.Subscription) {
	for _, other := range roles {
		if other == role || a.layout == oneAccount {
			continue
		}
		nc := a.admin("HAP_" + other)
		sub, err := nc.SubscribeSync(inbox(role))
		if err != nil {
			a.t.Fatal(err)
		}
		if err := nc.Flush(); err != nil {
			a.t.Fatal(err)
		}
		subs = append(subs, sub)
	}
	return subs
}

// tryAll attacks in a role: each target alone, as the reply to each thing that the role
// may ask for, as the destination of its trace, and as that of a consumer.
func (a *attacked) tryAll(role string) {
	a.t.Helper()
	nc := a.as(role, nats.CustomInboxPrefix("_INBOX."+strings.ToLower(role)), nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}))
	if _, err := nc.Subscribe(inbox(role), func(*nats.Msg) {}); err != nil { // a pull without interest is not served
		a.t.Fatal(err)
	}
	send := func(msg *nats.Msg) {
		if err := nc.PublishMsg(msg); err != nil {
			a.t.Fatal(err)
		}
	}
	for _, target := range slices.Concat(a.targets, []string{inbox(role)}) {
		if !a.changes(role, target) {
			for _, data := range []string{"", "{}", "+TERM", `{"stream_name":"HAP_EVENTS","config":{"durable_name":"hap-worker","name":"hap-worker","ack_policy":"explicit"}}`} {
				send(&nats.Msg{Subject: target, Reply: inbox(role), Data: []byte(data)})
			}
		}
		for _, asked := range a.targets {
			if !a.may(role, asked) || a.changes(role, asked) {
				continue
			}
			send(&nats.Msg{Subject: asked, Reply: target, Data: []byte(request(asked, ""))})
			send(&nats.Msg{Subject: asked, Reply: target, Data: []byte("no request")})
			send(&nats.Msg{Subject: asked, Data: []byte(request(asked, "")), Header: nats.Header{"Nats-Trace-Dest": {target}}})
			if strings.Contains(asked, ".CONSUMER.CREATE.") {
				send(&nats.Msg{Subject: asked[:strings.LastIndexByte(asked, '.')+1] + "to" + fmt.Sprint(slices.Index(a.targets, target)), Data: []byte(request(asked, target))})
			}
		}
	}
	if err := nc.FlushTimeout(time.Minute); err != nil && !strings.Contains(err.Error(), "ermission") {
		a.t.Fatal(err)
	}
}

// request has what a subject of the API takes; deliver is the subject of a push consumer.
func request(subject, deliver string) string {
	tokens := strings.Split(subject, ".")
	switch {
	case strings.Contains(subject, ".MSG.NEXT."):
		return `{"batch":1,"no_wait":true}`
	case strings.Contains(subject, ".MSG.GET."):
		return `{"seq":1}`
	case strings.Contains(subject, ".CONSUMER.CREATE.") && deliver != "":
		return fmt.Sprintf(`{"stream_name":%q,"config":{"deliver_subject":%q,"ack_policy":"none","headers_only":true,"idle_heartbeat":100000000}}`, tokens[4], deliver)
	case strings.Contains(subject, ".CONSUMER.CREATE."):
		return fmt.Sprintf(`{"stream_name":%q,"config":{"name":%q,"ack_policy":"none"}}`, tokens[4], tokens[len(tokens)-1])
	}
	return ""
}

// rights are the subjects that permissions.conf and shadow.conf let a role publish on.
func rights(t *testing.T, role string) (subjects []string) {
	t.Helper()
	text := deployed(t, "permissions.conf") + deployed(t, "shadow.conf")
	_, text, _ = strings.Cut(text, "\nHAP_"+role+" = {")
	text, _, _ = strings.Cut(text, "\n}")
	for _, right := range permitted.FindAllStringSubmatch(text, -1) {
		subjects = append(subjects, right[1])
	}
	return subjects
}

// may reports whether a role has the right to publish on a subject.
func (a *attacked) may(role, subject string) bool {
	return slices.ContainsFunc(a.rights[role], func(right string) bool { return server.SubjectsCollide(right, subject) })
}

// changes reports whether a role has the right to change something with a subject: to
// use it is no attack.
func (a *attacked) changes(role, subject string) bool {
	return a.may(role, subject) && (strings.HasPrefix(subject, "$JS.ACK.") || strings.Contains(subject, ".UPDATE.") || strings.Contains(subject, ".PURGE.") ||
		strings.Contains(subject, ".CREATE.HAP_EVENTS.hap-") || strings.Contains(subject, ".CREATE.HAP_SHADOW_EVENTS.hap-"))
}

// state has what streams and consumers are: by what it says of them.
func (a *attacked) state() map[string]string {
	a.t.Helper()
	state := map[string]string{}
	ctx := a.t.Context()
	for name, js := range a.admins {
		stream, err := js.Stream(ctx, name)
		if err != nil {
			continue // deleted: it lacks its configuration
		}
		info, err := stream.Info(ctx, jetstream.WithSubjectFilter(">"))
		if errors.Is(err, jetstream.ErrStreamNotFound) {
			continue // deleted meanwhile
		} else if err != nil {
			a.t.Fatal(err)
		}
		state[name+" configuration "+name] = fmt.Sprintf("%+v", info.Config)
		for subject := range info.State.Subjects {
			if strings.Contains(subject, "barrier") {
				continue
			}
			last, err := stream.GetLastMsgForSubject(ctx, subject)
			if errors.Is(err, jetstream.ErrStreamNotFound) || errors.Is(err, jetstream.ErrMsgNotFound) {
				continue
			} else if err != nil {
				a.t.Fatal(err)
			}
			state[name+" message on "+subject] = fmt.Sprint(last.Sequence, info.State.Subjects[subject])
		}
		consumers := stream.ListConsumers(ctx)
		for c := range consumers.Info() {
			state[name+" consumer "+c.Name] = fmt.Sprintf("%+v %d %d %d", c.Config, c.Delivered.Consumer, c.AckFloor.Consumer, c.NumAckPending)
		}
		if err := consumers.Err(); err != nil && !errors.Is(err, jetstream.ErrStreamNotFound) {
			a.t.Fatal(err)
		}
	}
	return state
}

// judge names what a role changed without a right to.
func (a *attacked) judge(role string, before, after map[string]string) (found []string) {
	keys := maps.Clone(before)
	maps.Copy(keys, after)
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		stream, what, _ := strings.Cut(key, " ")
		kind, name := what[:strings.IndexByte(what, ' ')], what[strings.LastIndexByte(what, ' ')+1:]
		if before[key] == after[key] || a.rightful(role, kind, stream, name) {
			continue
		}
		if after[key] == "" {
			found = append(found, fmt.Sprintf("%s: %s lacks its %s", role, stream, what))
		} else {
			found = append(found, fmt.Sprintf("%s: %s has another %s", role, stream, what))
		}
	}
	return found
}

// rightful reports whether a role has a right that may have changed something.
func (a *attacked) rightful(role, kind, stream, name string) bool {
	switch kind {
	case "message":
		return a.may(role, name) || a.may(role, "$JS.API.STREAM.PURGE."+stream) || a.may(role, "$JS.ACK."+stream+".hap-worker.x")
	case "consumer":
		return a.may(role, "$JS.API.CONSUMER.CREATE."+stream+"."+name)
	default:
		return a.may(role, "$JS.API.STREAM.UPDATE."+stream)
	}
}

// barrier returns when the server has done what it was asked for before, with three
// heartbeats of each consumer.
func (a *attacked) barrier() {
	a.t.Helper()
	ctx := a.t.Context()
	for range 2 {
		for name, js := range a.admins {
			stream, err := js.Stream(ctx, name)
			if err != nil {
				continue // state tells
			}
			subject := strings.NewReplacer("*", "barrier", ">", "barrier").Replace(stream.CachedInfo().Config.Subjects[0])
			if _, err := js.Publish(ctx, subject, nil); errors.Is(err, jetstream.ErrNoStreamResponse) {
				continue // deleted meanwhile
			} else if err != nil {
				a.t.Fatal(err)
			}
			if err := js.DeleteConsumer(ctx, name, "none"); err == nil {
				a.t.Fatal("a consumer that is not there was deleted")
			}
		}
		<-time.After(150 * time.Millisecond)
	}
}
