package inspect

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/hap-worker/hap-worker/cmd/hapctl/cli"
	"github.com/hap-worker/hap-worker/engine"
	"github.com/hap-worker/hap-worker/worker/config"
)

// watching has the flags of pools --watch.
type watching struct {
	on    bool
	every time.Duration
	count int
}

// check returns a usage error, nil for none.
func (w *watching) check(cmdChanged func(string) bool) error {
	switch {
	case !w.on && (cmdChanged("interval") || cmdChanged("count")):
		return cli.Usagef("--interval and --count go with --watch")
	case w.every <= 0:
		return cli.Usagef("--interval is %s, must be positive", w.every)
	case w.count < 0:
		return cli.Usagef("--count is %d, must not be negative", w.count)
	}
	return nil
}

// wrap makes a command show the result of read repeatedly with --watch, and once without it.
func (w *watching) wrap(s *cli.Shell, cmd *cobra.Command, read func(context.Context, *config.Config, []string) (cli.View, error)) {
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
			return cli.Usagef("--timeout is %s, must be positive", timeout)
		}
		cfg, err := s.Connections.Settings()
		if err != nil {
			return err
		}
		return w.run(cmd.Context(), s, cfg, timeout, func(ctx context.Context, cfg *config.Config) (cli.View, error) {
			return read(ctx, cfg, args)
		})
	}
}

// run shows the result of read repeatedly: count times if count is not 0, and until ctx ends, as at ^C. It
// returns the error of the first read. Later it returns only a *engine.ForeignError, and tells the user of any other.
// It redraws tables on a terminal. Otherwise it writes one table or YAML document after another, or a line of JSON each.
func (w *watching) run(ctx context.Context, s *cli.Shell, cfg *config.Config, timeout time.Duration, read func(context.Context, *config.Config) (cli.View, error)) error {
	tick := time.NewTicker(w.every)
	defer tick.Stop()
	for shown := 0; ; {
		reading, cancel := context.WithTimeout(ctx, timeout)
		v, err := read(reading, cfg)
		err = cli.InTime(reading, err)
		cancel()
		if ctx.Err() != nil {
			return nil
		}
		_, foreign := errors.AsType[*engine.ForeignError](err)
		switch {
		case err == nil:
			if err := w.draw(s, v, shown == 0); err != nil {
				return err
			}
			if shown++; shown == w.count {
				return nil
			}
		case foreign, shown == 0:
			return err
		default:
			s.Say("%s; looking again in %s", cli.OneLineOf(err), w.every)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

func (w *watching) draw(s *cli.Shell, v cli.View, first bool) error {
	switch s.Format {
	case cli.FormatJSON:
		return cli.EncodeJSON(s.Stdout, v, "")
	case cli.FormatYAML:
		if _, err := s.Stdout.Write([]byte("---\n")); err != nil {
			return err
		}
		return s.Print(v)
	}
	if s.Stdout.Moves() {
		if err := s.Stdout.Control(cli.ClearAll); err != nil {
			return err
		}
		if _, err := fmt.Fprintf(s.Stdout, "every %s, %s; ^C ends it\n\n", w.every, time.Now().Format(time.TimeOnly)); err != nil {
			return err
		}
	} else if !first {
		fmt.Fprintln(s.Stdout)
	}
	return s.Print(v)
}

// ColourOf returns red for a pool in which requests wait and no account is free. It returns yellow for
// another pool without a free account, and for one that is paused, is not built or has differences.
func (v poolList) ColourOf(line int) cli.Control {
	if line == 0 || line > len(v.Pools) {
		return cli.Plain
	}
	switch p := v.Pools[line-1]; {
	case p.Built && p.Free.N == 0 && p.Waiting.N > 0:
		return cli.Red
	case p.Free.N == 0, p.Paused, !p.Built, p.Differences.N > 0:
		return cli.Yellow
	default:
		return cli.Plain
	}
}
