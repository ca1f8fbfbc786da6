package operator

import (
	"bytes"
	"context"
	"strings"
	"testing"
	"time"

	"github.com/hap-worker/hap-worker/worker/config"
)

func colouredPools() poolList {
	return poolList{Pools: []poolView{
		{Pool: "aws", Built: true, Free: figure{n: 2}}, {Pool: "azure", Built: true, Waiting: figure{n: 1}}, {Pool: "gcp", Built: true, Free: figure{n: 1}, Paused: true},
	}}
}

// What a new tenant finds nothing in stands out, and only that; colours are for
// terminals only.
func TestPoolColours(t *testing.T) {
	t.Parallel()
	v := colouredPools()
	var text bytes.Buffer
	v.show(&text, false)
	var onScreen, elsewhere bytes.Buffer
	if err := paintLines(stream{&onScreen}, text.Bytes(), v, 0); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(onScreen.String(), "\n")
	for i, begin := range []string{"POOL", "aws", string(red) + "azure", string(yellow) + "gcp"} {
		if !strings.HasPrefix(lines[i], begin) {
			t.Errorf("line %d is %q, want it to begin with %q", i, lines[i], begin)
		}
	}
	headless := sheet{headless: true}
	v.show(&headless, false)
	onScreen.Reset()
	err := paintLines(stream{&onScreen}, headless.Bytes(), v, 1)
	if err != nil || !strings.HasPrefix(onScreen.String(), "aws") || !strings.Contains(onScreen.String(), "\n"+string(red)+"azure") {
		t.Errorf("without headers it is %q, %v", &onScreen, err)
	}
	s := &shell{stdout: stream{&bytes.Buffer{}}, format: formatTable}
	if err := s.paint(stream{&elsewhere}, text.Bytes(), v); err != nil || elsewhere.String() != text.String() {
		t.Errorf("painted for nobody: %q, %v", &elsewhere, err)
	}
}

// Watching ends when the user ends it, and that is no failure.
func TestWatchEnds(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	out := &bytes.Buffer{}
	s := &shell{stdout: stream{out}, format: formatJSON}
	shown := 0
	w := watching{on: true, every: time.Millisecond}
	err := w.run(ctx, s, nil, time.Minute, func(context.Context, *config.Config) (view, error) {
		if shown++; shown == 4 {
			cancel()
		}
		return colouredPools(), nil
	})
	if err != nil || strings.Count(out.String(), "\n") != 3 {
		t.Errorf("%v, %d lines", err, strings.Count(out.String(), "\n"))
	}
}
