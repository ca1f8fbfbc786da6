package operator

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

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

// wrap has a command that shows once what read returns show it again and again with --watch.
func (w *watching) wrap(s *shell, cmd *cobra.Command, read func(context.Context, *config.Config, []string) (view, error)) {
	once := cmd.RunE
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := w.check(cmd.Flags().Changed); err != nil {
			return err
		}
		if !w.on {
			return once(cmd, args)
		}
		timeout, err := cmd.Flags().GetDuration("timeout")
		if err != nil || timeout <= 0 {
			return usagef("--timeout is %s, must be positive", timeout)
		}
		cfg, err := s.connections.settings()
		if err != nil {
			return err
		}
		return w.run(cmd.Context(), s, cfg, timeout, func(ctx context.Context, cfg *config.Config) (view, error) {
			return read(ctx, cfg, args)
		})
	}
}

// run shows what read returns, again and again, until it was shown count times or
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
	if s.stdout.moves() {
		if err := s.stdout.control(clearAll); err != nil {
			return err
		}
		if _, err := fmt.Fprintf(s.stdout, "every %s, %s; ^C ends it\n\n", w.every, time.Now().Format(time.TimeOnly)); err != nil {
			return err
		}
	} else if !first {
		fmt.Fprintln(s.stdout)
	}
	return s.print(v)
}

// painted is a view whose lines have colours on a terminal; line 0 is the header.
type painted interface{ colourOf(line int) control }

// paint writes the text of a view with its colours, unless NO_COLOR is set or it is no terminal.
func (s *shell) paint(out stream, text []byte, v view) error {
	p, ok := v.(painted)
	if !ok || os.Getenv("NO_COLOR") != "" || !s.stdout.moves() {
		_, err := out.Write(text)
		return err
	}
	first := 0
	if s.noHeaders {
		first = 1
	}
	return paintLines(out, text, p, first)
}

// paintLines begins with the first line that is there.
func paintLines(out stream, text []byte, p painted, line int) error {
	for one := range bytes.Lines(text) {
		after := control("")
		if c := p.colourOf(line); c != plain {
			if err := out.control(c); err != nil {
				return err
			}
			one, after = bytes.TrimSuffix(one, []byte("\n")), reset+"\n"
		}
		if _, err := out.Write(one); err != nil {
			return err
		}
		if err := out.control(after); err != nil {
			return err
		}
		line++
	}
	return nil
}

// colourOf shows pools in which a new tenant finds nothing.
func (v poolList) colourOf(line int) control {
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
