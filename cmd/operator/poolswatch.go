package operator

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/hap-worker/hap-worker/worker/config"
)

// watching is pools --watch.
type watching struct {
	on    bool
	every time.Duration
	count int
}

// check is wrong usage, nil for none.
func (w *watching) check(cmdChanged func(string) bool) error {
	switch {
	case !w.on && (cmdChanged("interval") || cmdChanged("count")):
		return usagef("--interval and --count go with --watch")
	case w.every <= 0:
		return usagef("--interval is %s, must be positive", w.every)
	case w.count < 0:
		return usagef("--count is %d, must not be negative", w.count)
	}
	return nil
}

// run shows what read gives, again and again, until it was shown count times or
// ctx ends, which is how a person ends it. A terminal is drawn anew; elsewhere one
// table follows another, and JSON is one document a line.
func (w *watching) run(ctx context.Context, s *shell, cfg *config.Config, timeout time.Duration, read func(context.Context, *config.Config) (view, error)) error {
	tick := time.NewTicker(w.every)
	defer tick.Stop()
	for shown := 1; ; shown++ {
		reading, cancel := context.WithTimeout(ctx, timeout)
		v, err := read(reading, cfg)
		cancel()
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return err
		}
		if err := w.draw(s, v, shown == 1); err != nil {
			return err
		}
		if shown == w.count {
			return nil
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

func (w *watching) draw(s *shell, v view, first bool) error {
	switch s.format {
	case formatJSON:
		return encodeJSON(s.stdout, v, "")
	case formatYAML:
		if _, err := s.stdout.Write([]byte("---\n")); err != nil {
			return err
		}
		return s.print(v)
	}
	if moves(s.stdout) {
		if _, err := fmt.Fprintf(s.stdout, "\x1b[H\x1b[2Jevery %s, %s; ^C ends it\n\n", w.every, time.Now().Format(time.TimeOnly)); err != nil {
			return err
		}
	} else if !first {
		fmt.Fprintln(s.stdout)
	}
	return s.print(v)
}

// terminal reports whether somebody looks at what is written there.
func terminal(w any) bool {
	file, ok := w.(*os.File)
	if !ok {
		return false
	}
	facts, err := file.Stat()
	return err == nil && facts.Mode()&os.ModeCharDevice != 0
}

// moves reports whether what is written there may be drawn over.
func moves(w any) bool { return terminal(w) && os.Getenv("TERM") != "dumb" }

// colour is one of a terminal's.
type colour string

const (
	plain  colour = ""
	red    colour = "\x1b[31m"
	yellow colour = "\x1b[33m"
	reset         = "\x1b[0m"
)

// painted is a view whose lines have colours on a terminal; line 0 is the header.
type painted interface{ colourOf(line int) colour }

// paint colours lines, unless NO_COLOR is set or nobody looks.
func (s *shell) paint(text []byte, v view) []byte {
	p, ok := v.(painted)
	if !ok || os.Getenv("NO_COLOR") != "" || !moves(s.stdout) {
		return text
	}
	return paintLines(text, p)
}

func paintLines(text []byte, p painted) []byte {
	var out bytes.Buffer
	line := 0
	for one := range strings.Lines(string(text)) {
		if c := p.colourOf(line); c == plain {
			out.WriteString(one)
		} else {
			out.WriteString(string(c) + strings.TrimSuffix(one, "\n") + reset + "\n")
		}
		line++
	}
	return out.Bytes()
}

// colourOf shows pools in which a new tenant finds nothing.
func (v poolList) colourOf(line int) colour {
	if line == 0 || line > len(v.Pools) {
		return plain
	}
	switch p := v.Pools[line-1]; {
	case p.Built && p.Free.n == 0 && p.Waiting.n > 0:
		return red
	case p.Free.n == 0, p.Paused, !p.Built, p.Differences.n > 0:
		return yellow
	default:
		return plain
	}
}
