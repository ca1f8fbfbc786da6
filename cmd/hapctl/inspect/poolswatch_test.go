package inspect

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/hap-worker/hap-worker/cmd/hapctl/cli"
	"github.com/hap-worker/hap-worker/cmd/hapctl/view"
	"github.com/hap-worker/hap-worker/engine"
	"github.com/hap-worker/hap-worker/worker/config"
)

func colouredPools() poolList {
	return poolList{Pools: []PoolView{
		{Pool: "aws", Built: true, Free: view.Figure{N: 2}}, {Pool: "azure", Built: true, Waiting: view.Figure{N: 1}}, {Pool: "gcp", Built: true, Free: view.Figure{N: 1}, Paused: true},
	}}
}

// Only pools in which a new tenant finds no account are coloured, and only on a terminal.
func TestPoolColours(t *testing.T) {
	t.Parallel()
	v := colouredPools()
	var text bytes.Buffer
	v.Show(&text, false)
	var onScreen, elsewhere bytes.Buffer
	if err := cli.PaintLines(cli.Stream{To: &onScreen}, text.Bytes(), v, 0); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(onScreen.String(), "\n")
	for i, begin := range []string{"POOL", "aws", string(cli.Red) + "azure", string(cli.Yellow) + "gcp"} {
		if !strings.HasPrefix(lines[i], begin) {
			t.Errorf("line %d is %q, want it to begin with %q", i, lines[i], begin)
		}
	}
	headless := cli.Sheet{Headless: true}
	v.Show(&headless, false)
	onScreen.Reset()
	err := cli.PaintLines(cli.Stream{To: &onScreen}, headless.Bytes(), v, 1)
	if err != nil || !strings.HasPrefix(onScreen.String(), "aws") || !strings.Contains(onScreen.String(), "\n"+string(cli.Red)+"azure") {
		t.Errorf("without headers it is %q, %v", &onScreen, err)
	}
	s := &cli.Shell{Stdout: cli.Stream{To: &bytes.Buffer{}}, Format: cli.FormatTable}
	if err := s.Paint(cli.Stream{To: &elsewhere}, text.Bytes(), v); err != nil || elsewhere.String() != text.String() {
		t.Errorf("painted without a terminal: %q, %v", &elsewhere, err)
	}
}

// The user ends --watch; that is no failure.
func TestWatchEnds(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	out := &bytes.Buffer{}
	s := &cli.Shell{Stdout: cli.Stream{To: out}, Format: cli.FormatJSON}
	shown := 0
	w := watching{on: true, every: time.Millisecond}
	err := w.run(ctx, s, nil, time.Minute, func(context.Context, *config.Config) (cli.View, error) {
		if shown++; shown == 4 {
			cancel()
		}
		return colouredPools(), nil
	})
	if err != nil || strings.Count(out.String(), "\n") != 3 {
		t.Errorf("%v, %d lines", err, strings.Count(out.String(), "\n"))
	}
}

// TestWatchGoesOn: a reading that fails does not end --watch, unless it is the first, or the place is foreign.
func TestWatchGoesOn(t *testing.T) {
	t.Parallel()
	lost, foreign := errors.New("connection reset"), &engine.ForeignError{}
	for _, c := range []struct {
		name  string
		reads []error
		want  error
		shown int
	}{
		{"fails once", []error{nil, lost, nil}, nil, 2},
		{"never succeeds", []error{lost}, lost, 0},
		{"another landscape", []error{nil, foreign}, foreign, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			var out, talk bytes.Buffer
			s := &cli.Shell{Stdout: cli.Stream{To: &out}, Stderr: cli.Stream{To: &talk}, Format: cli.FormatJSON}
			w, n := watching{on: true, every: time.Millisecond, count: 2}, 0
			err := w.run(t.Context(), s, nil, time.Minute, func(context.Context, *config.Config) (cli.View, error) {
				n++
				return colouredPools(), c.reads[n-1]
			})
			if !errors.Is(err, c.want) || strings.Count(out.String(), "\n") != c.shown {
				t.Errorf("%v, %d lines", err, strings.Count(out.String(), "\n"))
			}
			if told := strings.Contains(talk.String(), "connection reset"); told != (c.want == nil) {
				t.Errorf("it says %s", &talk)
			}
		})
	}
}
