package operator

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/redis/go-redis/v9"
	"github.com/spf13/cobra"

	"github.com/hap-worker/hap-worker/cmd/connect"
	"github.com/hap-worker/hap-worker/counters"
	"github.com/hap-worker/hap-worker/engine"
	"github.com/hap-worker/hap-worker/engine/account"
	"github.com/hap-worker/hap-worker/gardener"
	"github.com/hap-worker/hap-worker/worker/config"
)

const (
	// connectWithin bounds how long NATS is tried for, so that a wrong address is
	// told at once and not when the time for the answer is over.
	connectWithin = 5 * time.Second
	// readWithin is how long a command that shows the present state may take.
	readWithin = 10 * time.Second
)

// reader makes cmd a command that shows the present state: run has --timeout to
// read it, from what the settings name.
func (s *shell) reader(cmd *cobra.Command, of string, run func(context.Context, *config.Config, []string) error) *cobra.Command {
	return s.readerWithin(cmd, readWithin, of, run)
}

// readerWithin is reader with another default of --timeout.
func (s *shell) readerWithin(cmd *cobra.Command, within time.Duration, of string, run func(context.Context, *config.Config, []string) error) *cobra.Command {
	timeout := cmd.Flags().Duration("timeout", within, "how long to wait "+of)
	cmd.RunE = func(_ *cobra.Command, args []string) error {
		if *timeout <= 0 {
			return usagef("--timeout is %s, must be positive", *timeout)
		}
		cfg, err := s.connections.settings()
		if err != nil {
			return err
		}
		ctx, cancel := context.WithTimeout(cmd.Context(), *timeout)
		defer cancel()
		return run(s.watched(ctx), cfg, args)
	}
	return cmd
}

// openNATS connects, or says which address and setting are at fault.
func openNATS(ctx context.Context, s *shell, c config.NATS) (*nats.Conn, error) {
	if s.opened.nats != nil {
		return s.opened.nats, nil
	}
	const setting = "--nats-url, HAP_NATS_URL or nats.url of --config"
	ctx, cancel := context.WithTimeout(ctx, connectWithin)
	defer cancel()
	type opened struct {
		nc  *nats.Conn
		err error
	}
	done := make(chan opened, 1)
	go func() { // the first attempt to dial heeds no context
		nc, err := connect.NATS(ctx, c, "hapctl", nil)
		if err == nil && ctx.Err() != nil {
			nc.Close()
			nc, err = nil, context.Cause(ctx)
		}
		done <- opened{nc, err}
	}()
	select {
	case o := <-done:
		if o.err != nil {
			return nil, unreachable("NATS", c.URL, o.err, setting)
		}
		s.opened.nats = o.nc
		return o.nc, nil
	case <-ctx.Done():
		return nil, unreachable("NATS", c.URL, context.Cause(ctx), setting)
	}
}

// quietRedis keeps the library's own log off standard error: what matters comes
// back as an error.
var quietRedis = sync.OnceFunc(func() { redis.SetLogger(silence{}) })

type silence struct{}

func (silence) Printf(context.Context, string, ...any) {}

// errUnbuilt means that Redis holds no valid state.
var errUnbuilt = errors.New("it is not built: it holds no state, or an older one")

// openRedis returns the store of counts. It checks first that Redis answers, belongs to
// the landscape and is built.
func openRedis(ctx context.Context, s *shell, cfg *config.Config) (*counters.Store, error) {
	store, built, err := reachRedis(ctx, s, cfg)
	if err == nil && !built {
		return nil, notBuilt(errUnbuilt, cfg.Redis.URL)
	}
	return store, err
}

// reachRedis returns the store of counts once it is known to answer and to be of the
// landscape, and whether it is built.
func reachRedis(ctx context.Context, s *shell, cfg *config.Config) (store *counters.Store, built bool, err error) {
	if store, built, err = dialRedis(ctx, s, cfg.Redis); err != nil {
		return nil, false, err
	}
	if err := s.redisIs(ctx, store, built, cfg); err != nil {
		return nil, false, err
	}
	return store, built, nil
}

// dialRedis is reachRedis for whatever landscape.
func dialRedis(ctx context.Context, s *shell, c config.Redis) (store *counters.Store, built bool, err error) {
	const setting = "--redis-url, HAP_REDIS_URL or redis.url of --config"
	if s.opened.redis == nil {
		quietRedis()
		if s.opened.redis, err = connect.Redis(c); err != nil {
			return nil, false, fmt.Errorf("%w; set %s", err, setting)
		}
	}
	store = s.opened.redis
	directory, err := store.Status(ctx, account.BucketName(0))
	if err == nil {
		return store, directory.Built, nil
	}
	if coded, ok := errors.AsType[*engine.Error](err); ok {
		err = coded.Err
	}
	return nil, false, unreachable("Redis", c.URL, err, setting)
}

// notBuilt says what to do about a Redis, or a pool in it, that is not built.
func notBuilt(err error, at config.URLs) error {
	return &engine.Error{
		Code: engine.CodeInternal, Op: "reading Redis at " + addresses(at), Err: err,
		Hint: "start a worker (hap-worker --config FILE): it builds Redis from ledger, labels and Shoots",
	}
}

// openGardener makes the client of the bindings, once their namespace is known to be the
// landscape's.
// What an operator should look at is told at the end, by the function that is
// returned: a fault in ten thousand labels is one fault.
func openGardener(ctx context.Context, s *shell, c config.Gardener) (*gardener.Client, func(), error) {
	const most = 5
	o := s.opened
	tell := func() {
		warnings := o.untold()
		for _, text := range warnings[:min(most, len(warnings))] {
			s.say("%s", text)
		}
		if more := len(warnings) - most; more > 0 {
			s.say("and %d more warnings of this kind", more)
		}
	}
	if o.gardener == nil {
		client, options, err := connect.Gardener(c, s.connections.context, o.warn)
		if err != nil {
			return nil, nil, fmt.Errorf("%w; set %s", err, gardenerSetting)
		}
		o.gardener, o.gardenerBy = client, options.WithDefaults()
	}
	if err := s.gardenerIs(ctx, o.gardener, o.gardenerBy); err != nil {
		tell()
		return nil, nil, err
	}
	return o.gardener, tell, nil
}

const gardenerSetting = "--kubeconfig, KUBECONFIG or gardener.kubeconfig and gardener.namespace of --config"

// gardenerError adds which setting to check if the API is unreachable.
func gardenerError(err error) error {
	if err == nil || !errors.Is(err, engine.ErrUnavailable) {
		return err
	}
	return &exitError{code: exitFailure, err: fmt.Errorf("%s; check %s", oneLineOf(err), gardenerSetting)}
}

// unreachable is a connection that was not made. It is a failure and never the
// time-out of a request, since nothing was asked.
func unreachable(what string, at config.URLs, err error, setting string) error {
	return &exitError{code: exitFailure, err: fmt.Errorf(
		"%s at %s is not reachable: %s; check %s", what, addresses(at), oneLineOf(err), setting)}
}

func oneLineOf(err error) string { return strings.ReplaceAll(err.Error(), "\n", "; ") }

// addresses are URLs without user and password.
func addresses(urls config.URLs) string {
	shown := make([]string, len(urls))
	for i, text := range urls {
		shown[i] = "(not a URL)"
		if u, err := url.Parse(text); err == nil {
			u.User, u.RawQuery = nil, ""
			shown[i] = u.String()
		}
	}
	return strings.Join(shown, ",")
}

// unknown is the answer about something that is not there: programs get it as
// the lines of --stdin have it.
func (s *shell) unknown(e *engine.Error) error {
	if s.format == formatJSON || s.format == formatYAML {
		if err := s.print(failedLine{Error: lineError{Code: e.Code, Message: e.Error()}}); err != nil {
			return err
		}
	}
	return fmt.Errorf("%s: %w", e.Code, e)
}

// show is never asked for: people read the message on standard error.
func (f failedLine) show(w io.Writer, _ bool) { fmt.Fprintln(w, f.Error.Message) }

// together lets several goroutines write whole lines to one writer.
type together struct {
	mu sync.Mutex
	w  io.Writer
}

func (t *together) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.w.Write(p)
}
