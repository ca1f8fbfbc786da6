package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/spf13/cobra"

	"github.com/hap-worker/hap-worker/cmd/connect"
	"github.com/hap-worker/hap-worker/counters"
	"github.com/hap-worker/hap-worker/counters/connection"
	"github.com/hap-worker/hap-worker/engine"
	"github.com/hap-worker/hap-worker/engine/account"
	"github.com/hap-worker/hap-worker/gardener"
	"github.com/hap-worker/hap-worker/worker/config"
)

const (
	// ConnectWithin bounds how long hapctl tries to reach NATS or Gardener, so that it reports a wrong address before
	// the time for the answer is over.
	ConnectWithin = 5 * time.Second
	// ReadWithin is how long a command that shows the present state may take by default.
	ReadWithin = 10 * time.Second
)

// Reader makes cmd a command that shows the present state. run gets a context that ends after --timeout, the settings
// and the arguments. of completes the usage text of --timeout, "how long to wait "+of: "for Redis" for example.
func (s *Shell) Reader(cmd *cobra.Command, of string, run func(context.Context, *config.Config, []string) error) *cobra.Command {
	return s.ReaderWithin(cmd, ReadWithin, of, run)
}

// ReaderWithin is Reader with another default of --timeout.
func (s *Shell) ReaderWithin(cmd *cobra.Command, within time.Duration, of string, run func(context.Context, *config.Config, []string) error) *cobra.Command {
	timeout := cmd.Flags().Duration("timeout", within, "how long to wait "+of)
	cmd.RunE = func(_ *cobra.Command, args []string) error {
		if *timeout <= 0 {
			return Usagef("--timeout is %s, must be positive", *timeout)
		}
		cfg, err := s.Connections.Settings()
		if err != nil {
			return err
		}
		ctx, cancel := context.WithTimeout(cmd.Context(), *timeout)
		defer cancel()
		return InTime(ctx, run(s.Watched(ctx), cfg, args))
	}
	return cmd
}

// InTime returns the error of a command whose context is ctx. If the time of ctx has passed, the error ends hapctl with
// ExitTimeout, whatever a server's client has wrapped it in. An error that has an ExitError keeps its exit code.
func InTime(ctx context.Context, err error) error {
	var exit *ExitError
	if err == nil || errors.As(err, &exit) || !errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return err
	}
	return &ExitError{Code: ExitTimeout, Err: err}
}

// Half returns a context for questions to a server that the command can do without. It ends after half of the time that
// ctx has left, at the latest after ConnectWithin, so that a server that does not answer leaves time for the others.
func Half(ctx context.Context) (context.Context, context.CancelFunc) {
	within := ConnectWithin
	if end, limited := ctx.Deadline(); limited {
		within = min(within, time.Until(end)/2)
	}
	return context.WithTimeout(ctx, within)
}

// OpenNATS returns the command's connection to NATS. The first call connects, for up to ConnectWithin. An error
// names the address and the setting at fault.
func OpenNATS(ctx context.Context, s *Shell, c config.NATS) (*nats.Conn, error) {
	if s.opened.nats != nil {
		return s.opened.nats, nil
	}
	const setting = "--nats-url, HAP_NATS_URL or nats.url of --config"
	ctx, cancel := context.WithTimeout(ctx, ConnectWithin)
	defer cancel()
	type opened struct {
		nc  *nats.Conn
		err error
	}
	done := make(chan opened, 1)
	go func() { // the first dial ignores the context
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

// quietRedis keeps the library's log off standard error: errors that matter are returned.
var quietRedis = sync.OnceFunc(func() { connection.LogBy(func(context.Context, string) {}) })

// errUnbuilt means that Redis is not built, judged by the first bucket of the directory.
var errUnbuilt = errors.New("it is not built: it holds no state, or that of another run of the server")

// OpenRedis returns the store in Redis. It checks first that Redis answers, does not belong to another landscape and
// is built.
func OpenRedis(ctx context.Context, s *Shell, cfg *config.Config) (*counters.Store, error) {
	store, built, err := ReachRedis(ctx, s, cfg)
	if err == nil && !built {
		return nil, NotBuilt(errUnbuilt, cfg.Redis.URL)
	}
	return store, err
}

// ReachRedis returns the store in Redis, and whether it is built: the first bucket of the directory stands
// for all places. It checks first that Redis answers and does not belong to another landscape.
func ReachRedis(ctx context.Context, s *Shell, cfg *config.Config) (store *counters.Store, built bool, err error) {
	if store, built, err = DialRedis(ctx, s, cfg.Redis); err != nil {
		return nil, false, err
	}
	if err := s.redisIs(ctx, store, built, cfg); err != nil {
		return nil, false, err
	}
	return store, built, nil
}

// DialRedis is ReachRedis without the check of the landscape.
func DialRedis(ctx context.Context, s *Shell, c config.Redis) (store *counters.Store, built bool, err error) {
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

// NotBuilt returns the error for a Redis, or a pool in it, that is not built. It names the remedy.
func NotBuilt(err error, at config.URLs) error {
	return &engine.Error{
		Code: engine.CodeInternal, Op: "reading Redis at " + connect.Shown(at), Err: err,
		Hint: "start a worker (hap-worker --config FILE): it builds Redis from ledger, labels and Shoots",
	}
}

// OpenGardener returns the client of the bindings. It checks first that their namespace does not belong to another
// landscape. The command calls the returned function at its end, to tell the user the client's warnings: at
// most five, since one fault may be in ten thousand labels.
func OpenGardener(ctx context.Context, s *Shell, c config.Gardener) (*gardener.Client, func(), error) {
	const most = 5
	o := s.opened
	tell := func() {
		warnings := o.untold()
		for _, text := range warnings[:min(most, len(warnings))] {
			s.Say("%s", text)
		}
		if more := len(warnings) - most; more > 0 {
			s.Say("and %d more warnings of this kind", more)
		}
	}
	if o.gardener == nil {
		client, options, err := connect.Gardener(c, s.Connections.Context, o.warn)
		if err != nil {
			return nil, nil, fmt.Errorf("%w; set %s", err, GardenerSetting)
		}
		o.gardener, o.gardenerBy = client, options.WithDefaults()
	}
	if err := s.gardenerIs(ctx, o.gardener, o.gardenerBy); err != nil {
		tell()
		return nil, nil, err
	}
	return o.gardener, tell, nil
}

// GardenerSetting names the settings that say where Gardener is.
const GardenerSetting = "--kubeconfig, KUBECONFIG or gardener.kubeconfig and gardener.namespace of --config"

// GardenerError adds which setting to check if the API is unreachable. The result does not wrap err, which may be the
// time-out of a single request: only InTime decides whether the time of the command is over.
func GardenerError(err error) error {
	if err == nil || !errors.Is(err, engine.ErrUnavailable) {
		return err
	}
	return fmt.Errorf("%s; check %s", OneLineOf(err), GardenerSetting)
}

// unreachable returns the error for a server that was not reached. Its exit code is ExitFailure even if the cause is a
// time-out: the command has not begun its own work.
func unreachable(what string, at config.URLs, err error, setting string) error {
	return &ExitError{Code: ExitFailure, Err: fmt.Errorf(
		"%s at %s is not reachable: %s; check %s", what, connect.Shown(at), OneLineOf(err), setting)}
}

// OneLineOf returns the text of an error without line ends.
func OneLineOf(err error) string { return strings.ReplaceAll(err.Error(), "\n", "; ") }

// Unknown returns the error about something that does not exist. In the formats JSON and YAML it also prints
// the error in the form of --stdin.
func (s *Shell) Unknown(e *engine.Error) error {
	if s.Format == FormatJSON || s.Format == FormatYAML {
		if err := s.Print(FailedLine{Error: LineError{Code: e.Code, Message: e.Error()}}); err != nil {
			return err
		}
	}
	return fmt.Errorf("%s: %w", e.Code, e)
}

// Show makes FailedLine a View. No command calls Show: people read the message on standard error.
func (f FailedLine) Show(w io.Writer, _ bool) { fmt.Fprintln(w, f.Error.Message) }

// Together lets several goroutines write whole lines to one writer.
type Together struct {
	mu sync.Mutex
	W  io.Writer
}

func (t *Together) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.W.Write(p)
}
