package storage_test

import (
	"context"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/hap-worker/hap-worker/ledger/ledgertest"
	"github.com/hap-worker/hap-worker/ledger/storage"
)

// The streams in the order in which Options.Streams defines them.
const (
	theEvents = iota
	theReplies
	theWaiting
	theDead
)

// ofTheShop is the description of another application's stream or consumer.
const ofTheShop = "orders of\nthe shop"

// stand creates the streams of an installation, one of them changed.
func stand(ctx context.Context, t *testing.T, js jetstream.JetStream, which int, change func(*jetstream.StreamConfig)) {
	t.Helper()
	if _, err := js.CreateStream(ctx, jetstream.StreamConfig{Name: "ORDERS", Subjects: []string{"o"}}); err != nil {
		t.Fatal(err)
	}
	defined, err := storage.Options{}.Streams()
	if err != nil {
		t.Fatal(err)
	}
	if change != nil {
		change(&defined[which])
	}
	for _, c := range defined {
		sealed := c.Sealed
		c.Sealed = false // no stream begins so
		if _, err := js.CreateStream(ctx, c); err != nil {
			t.Fatal(err)
		}
		if c.Sealed = sealed; sealed {
			if _, err := js.UpdateStream(ctx, c); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// TestSetupRefusesStream: Setup refuses a stream that others made or changed so that workers cannot
// use it. The error says whose it is, what differs and which command helps. Setup does not change the
// stream.
func TestSetupRefusesStream(t *testing.T) {
	t.Parallel()
	type setting = jetstream.StreamConfig
	for name, c := range map[string]struct {
		which  int
		change func(*setting)
		says   []string
	}{
		"other subjects": {theEvents, func(c *setting) { c.Subjects = []string{"orders.>"} }, []string{
			"subjects is [orders.>], must be [hap.v1.deprovision.* hap.v1.provision.* hap.v1.release.* hap.v1.resolve.*]", "nats stream rm HAP_EVENTS"}},
		"another's subjects too": {theEvents, func(c *setting) { c.Subjects = append(c.Subjects, "orders.>") }, []string{"subjects has [orders.>]", "nats stream rm HAP_EVENTS"}},
		"another prefix":         {theReplies, func(c *setting) { c.Subjects = []string{"hap.v0.reply.>"} }, []string{"subjects is [hap.v0.reply.>], must be [hap.v1.reply.>]"}},
		"events for ever":        {theEvents, func(c *setting) { c.Retention = jetstream.LimitsPolicy }, []string{"retention is Limits, must be WorkQueue"}},
		"events by interest":     {theEvents, func(c *setting) { c.Retention = jetstream.InterestPolicy }, []string{"retention is Interest, must be WorkQueue"}},
		"replies as a queue":     {theReplies, func(c *setting) { c.Retention = jetstream.WorkQueuePolicy }, []string{"retention is WorkQueue, must be Limits"}},
		"replies by interest":    {theReplies, func(c *setting) { c.Retention = jetstream.InterestPolicy }, []string{"retention is Interest, must be Limits"}},
		"waiting by interest":    {theWaiting, func(c *setting) { c.Retention = jetstream.InterestPolicy }, []string{"retention is Interest, must be WorkQueue"}},
		"dead by interest":       {theDead, func(c *setting) { c.Retention = jetstream.InterestPolicy }, []string{"retention is Interest, must be Limits"}},
		"in memory":              {theReplies, func(c *setting) { c.Storage = jetstream.MemoryStorage }, []string{"storage is Memory, must be File"}},
		"events that are discarded": {theEvents, func(c *setting) { c.Discard = jetstream.DiscardOld }, []string{
			"discard is DiscardOld with max bytes 1073741824", "nats stream edit HAP_EVENTS --discard=new"}},
		"replies that are discarded": {theReplies, func(c *setting) { c.MaxMsgs = 10 }, []string{
			"max messages 10", "nats stream edit HAP_REPLIES --discard=new"}},
		"replies that age": {theReplies, func(c *setting) { c.MaxAge = time.Hour }, []string{"max age is 1h0m0s", "nats stream edit HAP_REPLIES --max-age=0s"}},
		"one event a tenant": {theEvents, func(c *setting) { c.MaxMsgsPerSubject = 1 }, []string{
			"max messages per subject is 1", "nats stream edit HAP_EVENTS --max-msgs-per-subject=-1"}},
		"the first reply stays": {theReplies, func(c *setting) { c.Discard, c.DiscardNewPerSubject = jetstream.DiscardNew, true }, []string{
			"discard new per subject is true", "nats stream edit HAP_REPLIES --no-discard-per-subject"}},
		"a mirror": {theReplies, func(c *setting) { c.Subjects, c.Mirror = nil, &jetstream.StreamSource{Name: "ORDERS"} }, []string{"a mirror of ORDERS"}},
		"other subjects inside": {theReplies, func(c *setting) {
			c.SubjectTransform = &jetstream.SubjectTransformConfig{Source: "hap.v1.reply.>", Destination: "x.>"}
		}, []string{"nats stream edit HAP_REPLIES --no-transform"}},
		"without acknowledgement": {theDead, func(c *setting) { c.NoAck = true }, []string{"acknowledgement off is true", "nats stream edit HAP_DEAD --ack"}},
		"a counter":               {theDead, func(c *setting) { c.AllowMsgCounter = true }, []string{"it is a counter"}},
		"sealed":                  {theReplies, func(c *setting) { c.Sealed = true }, []string{"it is sealed", "nats stream rm HAP_REPLIES"}},
		"purges denied":           {theWaiting, func(c *setting) { c.DenyPurge = true }, []string{"purge denied is true"}},
		"all at once": {theReplies, func(c *setting) { c.MaxAge, c.Storage = time.Hour, jetstream.MemoryStorage }, []string{
			"storage is Memory", "max age is 1h0m0s", "nats stream rm HAP_REPLIES"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			js := ledgertest.Server(t).JetStream()
			ctx := within(t)
			var stream string
			stand(ctx, t, js, c.which, func(s *setting) {
				s.Description, s.Metadata, stream = ofTheShop, map[string]string{"team": "shop"}, s.Name
				c.change(s)
			})
			before := config(t, js, stream)
			_, err := storage.Setup(ctx, js, storage.Options{Manage: true})
			if err == nil {
				t.Fatal("it is taken")
			}
			for _, says := range append(c.says, "stream "+stream+" cannot be", `described as "orders of the shop", with the metadata team=shop, created 20`, "nats stream info "+stream) {
				if !strings.Contains(err.Error(), says) {
					t.Errorf("%v\ndoes not say %q", err, says)
				}
			}
			if after := config(t, js, stream); !reflect.DeepEqual(after, before) {
				t.Errorf("the stream was changed from %+v to %+v", before, after)
			}
			if !strings.Contains(err.Error(), "nats stream edit "+stream) {
				return
			}
			defined, _ := storage.Options{}.Streams()
			if _, err := js.UpdateStream(ctx, defined[c.which]); err != nil {
				t.Fatalf("no edit mends it: %v", err)
			}
			if _, err := storage.Setup(ctx, js, storage.Options{Manage: true}); err != nil {
				t.Errorf("after an edit: %v", err)
			}
		})
	}
}

// TestSetupBearsStream: a harmless difference is reported in a line, or not at all, and the streams of
// an older version are usable.
func TestSetupBearsStream(t *testing.T) {
	t.Parallel()
	type setting = jetstream.StreamConfig
	for name, c := range map[string]struct {
		which  int
		change func(*setting)
		told   []string
	}{
		"as defined":     {theEvents, func(*setting) {}, nil},
		"no description": {theEvents, func(c *setting) { c.Description = "" }, nil},
		"of a version that knew no resolve": {theEvents, func(c *setting) { c.Subjects = c.Subjects[:3] }, []string{
			"stream HAP_EVENTS: subjects is [hap.v1.deprovision.* hap.v1.provision.* hap.v1.release.*], should be [hap.v1.deprovision.* hap.v1.provision.* hap.v1.release.* hap.v1.resolve.*]"}},
		"of a newer version": {theEvents, func(c *setting) { c.Subjects = append(c.Subjects, "hap.v1.rename.*") }, []string{
			"stream HAP_EVENTS: subjects is [hap.v1.deprovision.* hap.v1.provision.* hap.v1.release.* hap.v1.rename.* hap.v1.resolve.*], should be [hap.v1.deprovision.* hap.v1.provision.* hap.v1.release.* hap.v1.resolve.*]"}},
		"larger": {theEvents, func(c *setting) { c.MaxBytes = 2 << 30 }, []string{"stream HAP_EVENTS: max bytes is 2147483648, should be 1073741824"}},
		"discard without a limit": {theEvents, func(c *setting) { c.MaxBytes, c.Discard = -1, jetstream.DiscardOld }, []string{
			"stream HAP_EVENTS: discard is DiscardOld, should be DiscardNew", "stream HAP_EVENTS: max bytes is -1, should be 1073741824"}},
		"a bounded ledger": {theReplies, func(c *setting) { c.MaxMsgs, c.Discard = 1e6, jetstream.DiscardNew }, []string{
			"stream HAP_REPLIES: discard is DiscardNew, should be DiscardOld", "stream HAP_REPLIES: max messages is 1000000, should be -1"}},
		"a ledger that keeps more": {theReplies, func(c *setting) { c.MaxMsgsPerSubject = 5 }, []string{"stream HAP_REPLIES: max messages per subject is 5, should be 1"}},
		"a ledger that is guarded": {theReplies, func(c *setting) { c.DenyPurge, c.DenyDelete = true, true }, []string{
			"stream HAP_REPLIES: purge denied is true, should be false", "stream HAP_REPLIES: delete denied is true, should be false"}},
		"a ledger with a source": {theReplies, func(c *setting) { c.Sources = []*jetstream.StreamSource{{Name: "ORDERS"}} }, []string{"stream HAP_REPLIES: sources is 1, should be 0"}},
		"waiting with limits":    {theWaiting, func(c *setting) { c.Retention = jetstream.LimitsPolicy }, []string{"stream HAP_WAITING: retention is Limits, should be WorkQueue"}},
		"dead letters in memory": {theDead, func(c *setting) { c.Storage, c.MaxAge = jetstream.MemoryStorage, time.Hour }, []string{
			"stream HAP_DEAD: storage is Memory, should be File", "stream HAP_DEAD: max age is 1h0m0s, should be 720h0m0s"}},
		"dead letters as a queue": {theDead, func(c *setting) { c.Retention = jetstream.WorkQueuePolicy }, []string{"stream HAP_DEAD: retention is WorkQueue, should be Limits"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			js := ledgertest.Server(t).JetStream()
			ctx := within(t)
			stand(ctx, t, js, c.which, c.change)
			told, err := storage.Setup(ctx, js, storage.Options{Manage: true})
			if err != nil || !slices.Equal(told, c.told) {
				t.Errorf("%q, want %q; %v", told, c.told, err)
			}
		})
	}
}

// TestSetupNamesWhoHasTheSubjects: a stream of another name has the subjects of a worker's stream.
func TestSetupNamesWhoHasTheSubjects(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		rights *server.Permissions
		says   []string
	}{
		"seen": {nil, []string{`stream ORDERS has the subjects [hap.>] and is described as "orders of the shop", created 20`, "nats stream info ORDERS", "nats.prefix"}},
		"without the right to list": {&server.Permissions{Publish: &server.SubjectPermission{Deny: []string{"$JS.API.STREAM.LIST"}}},
			[]string{"nats stream ls --subject 'hap.v1.provision.*'"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			running := ledgertest.Server(t, func(o *server.Options) {
				o.Users = []*server.User{{Username: "root", Password: "x"}, {Username: "worker", Password: "x", Permissions: c.rights}}
			})
			ctx := within(t)
			_, err := running.JetStream(nats.UserInfo("root", "x")).CreateStream(ctx, jetstream.StreamConfig{Name: "ORDERS", Description: ofTheShop, Subjects: []string{"hap.>"}})
			if err != nil {
				t.Fatal(err)
			}
			_, err = storage.Setup(ctx, running.JetStream(nats.UserInfo("worker", "x")), storage.Options{Manage: true})
			for _, says := range append(c.says, "stream HAP_EVENTS cannot be created", "subjects overlap with an existing stream") {
				if err == nil || !strings.Contains(err.Error(), says) {
					t.Errorf("%v\ndoes not say %q", err, says)
				}
			}
		})
	}
}

// TestSetupRefusesOthersConsumer is TestSetupRefusesStream for a consumer of the workers' stream. A
// work queue itself refuses other ack and deliver policies.
func TestSetupRefusesOthersConsumer(t *testing.T) {
	t.Parallel()
	type setting = jetstream.ConsumerConfig
	for name, c := range map[string]struct {
		change func(*setting)
		says   []string
	}{
		"a filter": {func(c *setting) { c.FilterSubject = "hap.v1.release.*" }, []string{
			"filter is [hap.v1.release.*], must be none: it leaves out [hap.v1.provision.* hap.v1.deprovision.* hap.v1.resolve.*]", "nats consumer edit HAP_EVENTS hap-worker --filter='hap.v1.provision.*' --filter="}},
		"push":            {func(c *setting) { c.DeliverSubject = "shop.orders" }, []string{"it pushes to shop.orders", "nats consumer rm HAP_EVENTS hap-worker"}},
		"groups":          {func(c *setting) { c.PriorityGroups, c.PriorityPolicy = []string{"a"}, jetstream.PriorityPolicyPinned }, []string{"priority groups is [a]"}},
		"brief requests":  {func(c *setting) { c.MaxRequestExpires = time.Second }, []string{"nats consumer edit HAP_EVENTS hap-worker --max-pull-expire=30s"}},
		"another name":    {func(c *setting) { c.Durable = "shop" }, []string{"consumer shop is described", "nats consumer rm HAP_EVENTS shop"}},
		"one of its name": {func(c *setting) { c.Durable, c.FilterSubject = "shop", "hap.v1.release.*" }, []string{"consumer shop is described", "another one has its messages"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			js := ledgertest.Server(t).JetStream()
			ctx := within(t)
			stand(ctx, t, js, theEvents, nil)
			theirs := storage.Options{}.Consumer()
			theirs.Description, theirs.Metadata = ofTheShop, map[string]string{"team": "shop"}
			c.change(&theirs)
			create := func() error { _, err := js.CreateConsumer(ctx, "HAP_EVENTS", theirs); return err }
			if theirs.DeliverSubject != "" {
				create = func() error { _, err := js.CreatePushConsumer(ctx, "HAP_EVENTS", theirs); return err }
			}
			if err := create(); err != nil {
				t.Fatal(err)
			}
			_, err := storage.Setup(ctx, js, storage.Options{Manage: true})
			for _, says := range append(c.says, "consumer hap-worker of stream HAP_EVENTS cannot be", `described as "orders of the shop", with the metadata team=shop, created 20`) {
				if err == nil || !strings.Contains(err.Error(), says) {
					t.Errorf("%v\ndoes not say %q", err, says)
				}
			}
			if err := create(); err != nil { // the same again changes nothing; one that is gone would be created, beside the worker's
				t.Errorf("it was changed: %v", err)
			}
		})
	}
}

// TestSetupBearsFilter: a filter that has all events does no harm.
func TestSetupBearsFilter(t *testing.T) {
	t.Parallel()
	js := ledgertest.Server(t).JetStream()
	ctx := within(t)
	stand(ctx, t, js, theEvents, nil)
	all := storage.Options{}.Consumer()
	all.FilterSubject = "hap.v1.>"
	if _, err := js.CreateConsumer(ctx, "HAP_EVENTS", all); err != nil {
		t.Fatal(err)
	}
	told, err := storage.Setup(ctx, js, storage.Options{})
	if want := []string{"consumer hap-worker: filter is [hap.v1.>], should be []"}; err != nil || !slices.Equal(told, want) {
		t.Errorf("%q, %v", told, err)
	}
}
