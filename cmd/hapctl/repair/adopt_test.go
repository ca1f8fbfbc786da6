package repair

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/hap-worker/hap-worker/cmd/hapctl/cli"
	"github.com/hap-worker/hap-worker/engine"
)

// lossy is a ledger whose change fails.
type lossy struct {
	err     error
	applied bool  // the change took place all the same
	reading error // of the record, afterwards
	has     engine.Landscape
}

func (l *lossy) Landscape(context.Context) (engine.Landscape, bool, error) {
	return l.has, true, l.reading
}

func (l *lossy) SetLandscape(_ context.Context, own engine.Landscape) error {
	if l.applied {
		l.has = own
	}
	return l.err
}

// TestAdoptionFails: an adoption that fails says what was changed, and what is unknown.
func TestAdoptionFails(t *testing.T) {
	t.Parallel()
	own := engine.Landscape{Namespace: "garden-kyma", Resource: "credentialsbindings", Cluster: "c-1"}
	was := engine.Landscape{Namespace: "garden-old", Resource: "credentialsbindings", Cluster: "c-1"}
	lost := context.DeadlineExceeded
	for _, c := range []struct {
		name    string
		ledger  lossy
		redis   error
		changed []string // nil if nothing is printed
		want    string   // of the error
	}{
		{"refused", lossy{err: &jetstream.APIError{Code: 403}}, nil, nil, "nothing was changed"},
		{"no right", lossy{err: lost}, nil, nil, "nothing was changed"},
		{"the answer is lost", lossy{err: lost, applied: true}, nil, []string{"redis", "ledger"}, ""},
		{"the ledger is gone", lossy{err: lost, reading: lost}, nil, nil, "whether the ledger was changed is unknown"},
		{"Redis fails", lossy{applied: true}, errors.New("connection reset"), []string{"ledger"}, "the ledger was changed, Redis was not"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			c.ledger.has = was
			place := placeView{Recorded: true, Namespace: was.Namespace, Resource: was.Resource, Cluster: was.Cluster}
			redis, ledger := place, place
			redis.Place, ledger.Place = "redis", "ledger"
			b := &bearings{
				own: own, ledger: &c.ledger, view: landscapeView{Places: []placeView{{Place: "gardener"}, redis, ledger}},
				adoptRedis: func(context.Context, engine.Landscape) error { return c.redis },
			}
			var out, talk bytes.Buffer
			s := cli.New(strings.NewReader(""), &out, &talk)
			s.Format = cli.FormatJSON
			err := runAdopt(t.Context(), s, b, true, false)
			if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("it ends with %v", err)
			}
			var v adoption
			if c.changed != nil {
				if err := json.Unmarshal(out.Bytes(), &v); err != nil {
					t.Fatalf("%v: the output is %q", err, out.String())
				}
			}
			if !slices.Equal(v.Changed, c.changed) || c.changed == nil && out.Len() > 0 {
				t.Errorf("the output is %s", out.String())
			}
		})
	}
}

// TestAdoptWithoutUID: where the namespace may not be read, a record keeps the uid that it has.
func TestAdoptWithoutUID(t *testing.T) {
	t.Parallel()
	own := engine.Landscape{Namespace: "garden-kyma", Resource: "credentialsbindings"}
	record := func(place, namespace, uid string, same bool) placeView {
		return placeView{Place: place, Recorded: true, Namespace: namespace, Resource: own.Resource, Cluster: uid, Same: same}
	}
	for _, c := range []struct {
		name          string
		redis, ledger placeView
		changed       string // null if there is an error
	}{
		{"same", record("redis", "garden-kyma", "u-1", true), record("ledger", "garden-kyma", "u-1", true), "[]"},
		{"another with a uid", record("redis", "garden-old", "u-1", false), record("ledger", "garden-kyma", "u-1", true), "null"},
		{"another without", record("redis", "garden-old", "", false), record("ledger", "garden-kyma", "", true), `["redis"]`},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			b := &bearings{
				own: own, ledger: &lossy{}, view: landscapeView{Places: []placeView{{Place: "gardener"}, c.redis, c.ledger}},
				adoptRedis: func(context.Context, engine.Landscape) error { return nil },
			}
			var out bytes.Buffer
			s := cli.New(strings.NewReader(""), &out, io.Discard)
			s.Format = cli.FormatJSON
			err := runAdopt(t.Context(), s, b, true, false)
			if refused := c.changed == "null"; refused != (err != nil) || refused && !strings.Contains(err.Error(), "the right to get namespace garden-kyma") {
				t.Errorf("it ends with %v", err)
			}
			var v adoption
			if err == nil && json.Unmarshal(out.Bytes(), &v) != nil {
				t.Fatalf("the output is %q", &out)
			}
			if changed, _ := json.Marshal(v.Changed); string(changed) != c.changed {
				t.Errorf("it changes %s", changed)
			}
		})
	}
}
