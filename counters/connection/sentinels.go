package connection

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/hap-worker/hap-worker/engine"
)

// behindSentinels returns a client that asks the sentinels for its master.
func (o Options) behindSentinels(f *redis.FailoverOptions) *redis.Client {
	client := redis.NewFailoverClient(f)
	client.AddHook(sentinels{addresses: strings.Join(f.SentinelAddrs, ", "), master: f.MasterName})
	if o.SentinelPassword != nil {
		// The options for connections to the master have been copied by now. A hook set here is only
		// for connections to sentinels, which support no provider of credentials.
		f.OnConnect = o.logIn
	}
	return client
}

// logIn authenticates a connection to a sentinel.
func (o Options) logIn(ctx context.Context, sentinel *redis.Conn) error {
	password, err := o.SentinelPassword(ctx)
	switch {
	case err != nil:
	case o.SentinelUsername == "":
		err = sentinel.Auth(ctx, password).Err()
	default:
		err = sentinel.AuthACL(ctx, o.SentinelUsername, password).Err()
	}
	if err != nil {
		return fmt.Errorf("log in to the sentinel: %w", err) // go-redis removes the outermost layer of the error
	}
	return nil
}

// sentinels is a hook for errors of sentinels: it makes them say why there is no connection to a master.
type sentinels struct{ addresses, master string }

var _ redis.Hook = sentinels{}

// DialHook replaces the refusal of a sentinel by an *engine.Error that says what to check. During a dial
// commands go only to sentinels, so an error that a server has answered is a sentinel's.
func (s sentinels) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := next(ctx, network, addr)
		if refusal, refused := errors.AsType[redis.Error](err); refused {
			err = s.refused(refusal)
		}
		return conn, err
	}
}

func (s sentinels) refused(refusal error) error {
	hint := "check redis.sentinelUsername and redis.sentinelPasswordFile"
	if errors.Is(refusal, redis.Nil) {
		refusal = fmt.Errorf("they watch no master %q", s.master)
		hint = "check redis.sentinelMaster"
	}
	return &engine.Error{
		Code: engine.CodeInternal, Op: "asking the sentinels at " + s.addresses + " for the master", Err: refusal, Hint: hint,
	}
}

// ProcessHook is redis.Hook's, and changes nothing.
func (sentinels) ProcessHook(next redis.ProcessHook) redis.ProcessHook { return next }

// ProcessPipelineHook is redis.Hook's, and changes nothing.
func (sentinels) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}
