package counters_test

import (
	"context"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"pgregory.net/rapid"

	"github.com/hap-worker/hap-worker/counters"
	"github.com/hap-worker/hap-worker/counters/counterstest"
	"github.com/hap-worker/hap-worker/engine/account"
	_ "github.com/hap-worker/hap-worker/engine/rapidtest" // fixes the seed
)

// TestTogetherIsOneAfterTheOther sends the same requests under two prefixes: in one call of their
// script, and one by one. All answers and records must be equal, even if the requests of one call
// change each other's records.
func TestTogetherIsOneAfterTheOther(t *testing.T) {
	t.Parallel()
	for name, client := range servers(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rapid.Check(t, func(t *rapid.T) { together(t, client, false) })
		})
	}
}

// TestFullMemory is the same with a Redis that sometimes has no room: each request of a call either is
// refused and has written nothing, or has written everything.
func TestFullMemory(t *testing.T) {
	t.Parallel()
	client := counterstest.Redis(t)
	rapid.Check(t, func(t *rapid.T) { together(t, client, true) })
}

var (
	togetherPools    = []string{"aws", "gcp+eu"}
	togetherRuntimes = []string{"r1", "r2", "r3", "r4", "r5", "r6", "r7", "r8"}
	togetherBindings = []string{"a", "b", "c", "d", "e"}
)

func together(t *rapid.T, client *redis.Client, fills bool) {
	ctx := context.Background()
	if err := client.FlushDB(ctx).Err(); err != nil {
		t.Fatal(err)
	}
	many, single := counterstest.NewMachine(client, "many"), counterstest.NewMachine(client, "one")
	built := slices.Clone(togetherPools[:rapid.IntRange(1, 2).Draw(t, "built")]) // the second one may not be
	for _, id := range togetherRuntimes[:rapid.IntRange(6, 8).Draw(t, "located")] {
		built = append(built, account.BucketOf(id))
	}
	slices.Sort(built)
	for _, place := range slices.Compact(built) {
		install(t, many, place)
		install(t, single, place)
	}
	for range rapid.IntRange(1, 8).Draw(t, "calls") {
		ask := drawAsk(t)
		n := rapid.IntRange(1, 12).Draw(t, "requests")
		var all, each []counters.Ask
		for range n {
			of := ask(t)
			all, each = append(all, of(many.Store)), append(each, of(single.Store))
		}
		if fills {
			limit(t, client, rapid.SampledFrom([]string{"0", "1", "1"}).Draw(t, "memory"))
		}
		got, err := many.AskTogether(ctx, all...)
		if err != nil {
			t.Fatal(err)
		}
		if fills {
			limit(t, client, "0")
		}
		for i := range each {
			if fills && noRoom(got[i]) {
				continue
			}
			want, err := single.AskTogether(ctx, each[i])
			if err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(got[i], want[0]) {
				t.Fatalf("request %d of %d is answered %v, alone %v", i+1, n, got[i], want[0])
			}
		}
		left, alone := remembered(t, client, "many"), remembered(t, client, "one")
		maps.DeleteFunc(left, func(key, value string) bool {
			same := alone[key] == value
			if same {
				delete(alone, key)
			}
			return same
		})
		if len(left) > 0 || len(alone) > 0 {
			t.Fatalf("together they leave\n%v\none after the other\n%v", left, alone)
		}
	}
}

// limit sets the maximum memory of the server in bytes; 0 is unlimited.
func limit(t *rapid.T, client *redis.Client, bytes string) {
	if err := client.ConfigSet(context.Background(), "maxmemory", bytes).Err(); err != nil {
		t.Fatal(err)
	}
}

func noRoom(answer any) bool {
	values, _ := answer.([]any)
	return len(values) == 2 && values[0] == "FAILED" && strings.Contains(fmt.Sprint(values[1]), "OOM")
}

// drawAsk draws a script, and returns a generator of requests to it.
func drawAsk(t *rapid.T) func(*rapid.T) func(*counters.Store) counters.Ask {
	pool := func(t *rapid.T) string { return rapid.SampledFrom(togetherPools).Draw(t, "pool") }
	runtime := func(t *rapid.T) string { return rapid.SampledFrom(togetherRuntimes).Draw(t, "runtime") }
	must := func(ask counters.Ask, err error) counters.Ask {
		if err != nil {
			t.Fatal(err)
		}
		return ask
	}
	asks := map[string]func(*rapid.T) func(*counters.Store) counters.Ask{
		"assign": func(t *rapid.T) func(*counters.Store) counters.Ask {
			in, r := pool(t), drawTogether(t)
			return func(s *counters.Store) counters.Ask { return must(s.AskAssign(in, r)) }
		},
		"locate and assign": func(t *rapid.T) func(*counters.Store) counters.Ask {
			in, r := pool(t), drawTogether(t)
			return func(s *counters.Store) counters.Ask { return must(s.AskLocateAndAssign(in, r)) }
		},
		"confirm": func(t *rapid.T) func(*counters.Store) counters.Ask {
			in, c := pool(t), drawClaim(t)
			return func(s *counters.Store) counters.Ask { return s.AskConfirm(in, c) }
		},
		"revoke": func(t *rapid.T) func(*counters.Store) counters.Ask {
			in, c := pool(t), drawClaim(t)
			return func(s *counters.Store) counters.Ask { return s.AskRevoke(in, c) }
		},
		"release": func(t *rapid.T) func(*counters.Store) counters.Ask {
			in, id := pool(t), runtime(t)
			return func(s *counters.Store) counters.Ask { return s.AskRelease(in, id) }
		},
		"take back": func(t *rapid.T) func(*counters.Store) counters.Ask {
			in, id := pool(t), runtime(t)
			return func(s *counters.Store) counters.Ask { return s.AskTakeBack(in, id, "q-"+id, "ga-1") }
		},
		"depart": func(t *rapid.T) func(*counters.Store) counters.Ask {
			id := runtime(t)
			return func(s *counters.Store) counters.Ask { return s.AskDepart(id) }
		},
	}
	names := append(slices.Sorted(maps.Keys(asks)), "assign", "locate and assign", "locate and assign")
	return asks[rapid.SampledFrom(names).Draw(t, "script")]
}

func drawTogether(t *rapid.T) account.Request {
	id := rapid.SampledFrom(togetherRuntimes).Draw(t, "runtime")
	r := claim(id, "q-"+id, rapid.SampledFrom([]string{"ga-1", "ga-2"}).Draw(t, "tenant"))
	r.All, r.InTurn, r.Now = rapid.Bool().Draw(t, "all"), rapid.Bool().Draw(t, "in turn"), rapid.Bool().Draw(t, "now")
	r.Terms = account.Terms{Several: rapid.Bool().Draw(t, "several"), Limit: 2, Strategy: account.FillFirst}
	for _, name := range rapid.SliceOfNDistinct(rapid.SampledFrom(togetherBindings), 0, 3, rapid.ID).Draw(t, "suggested") {
		r.Seen = append(r.Seen, account.Seen{Binding: name, Mine: rapid.Bool().Draw(t, "mine")})
	}
	return r
}

func drawClaim(t *rapid.T) account.Claim {
	return account.Claim{
		Runtime: rapid.SampledFrom(togetherRuntimes).Draw(t, "runtime"), Binding: rapid.SampledFrom(togetherBindings).Draw(t, "binding"),
		Generation: 1, Sequence: rapid.Int64Range(1, 12).Draw(t, "sequence"), Epoch: "e1",
	}
}

// install builds an empty pool or bucket.
func install(t *rapid.T, m *counterstest.Machine, place string) {
	ctx := context.Background()
	if mine, err := m.BeginRebuild(ctx, place, "e1", time.Unix(0, 0), 0); err != nil || !mine {
		t.Fatalf("begin %s: %v, %v", place, mine, err)
	}
	var done bool
	var err error
	if account.IsBucket(place) {
		done, err = m.InstallBucket(ctx, place, "e1", account.Directory{})
	} else {
		done, err = m.Install(ctx, place, "e1", account.Snapshot{})
	}
	if err != nil || !done {
		t.Fatalf("install %s: %v, %v", place, done, err)
	}
}

// remembered returns everything that is stored under a prefix.
func remembered(t *rapid.T, client *redis.Client, prefix string) map[string]string {
	ctx := context.Background()
	all := map[string]string{}
	names, err := client.Keys(ctx, prefix+":*").Result()
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range names {
		var value any
		switch kind := client.Type(ctx, key).Val(); kind {
		case "hash":
			value, err = client.HGetAll(ctx, key).Result()
		case "zset":
			value, err = client.ZRangeWithScores(ctx, key, 0, -1).Result()
		default:
			t.Fatalf("%s is a %s", key, kind)
		}
		if err != nil {
			t.Fatal(err)
		}
		all[key[len(prefix):]] = fmt.Sprint(value)
	}
	return all
}
