package connection

import (
	"context"
	"errors"
	"fmt"
	"regexp"

	"github.com/redis/go-redis/v9"

	"github.com/hap-worker/hap-worker/engine"
)

// ErrEvicts says that the server evicts keys when memory runs short. It would lose assignments; only
// another configuration of the server mends that.
var ErrEvicts = errors.New("the server would forget assignments")

// Check checks the settings of a server, and returns warnings about unsafe settings. Errors: an
// *engine.Error that wraps ErrEvicts if the server evicts keys, or that of PING. Check reads INFO, which also a
// server that refuses CONFIG answers. A setting that INFO does not tell counts as safe.
func Check(ctx context.Context, c redis.Cmdable) (warnings []string, err error) {
	if err := c.Ping(ctx).Err(); err != nil {
		return nil, err
	}
	info := map[string]string{}
	for _, section := range []string{"server", "memory", "persistence"} {
		ReadInfo(c.Info(ctx, section).Val(), info)
	}
	if err := evicts(info); err != nil {
		return nil, err
	}
	if info["run_id"] == "" {
		warnings = append(warnings, "Redis does not tell its run_id: that it started again with older data cannot be noticed")
	}
	if aof, known := info["aof_enabled"]; known && aof != "1" {
		warnings = append(warnings, "Redis has no append-only file: a restart loses its data unless it makes snapshots (the records are rebuilt after each restart)")
	}
	return warnings, nil
}

// refuse returns an error for a connection that has not logged in, and for one to a server that evicts keys. The
// client then does not use the connection. It is called for each new one, because an operator can change password
// and policy of a running server, and a fail-over can lead to another server.
func refuse(ctx context.Context, c *redis.Conn) error {
	info := map[string]string{}
	text, err := c.Info(ctx, "memory").Result()
	if redis.HasErrorPrefix(err, "NOAUTH") {
		return fmt.Errorf("refused: %w", fmt.Errorf("%w (redis.url, redis.passwordFile)", err))
	}
	ReadInfo(text, info)
	if err := evicts(info); err != nil {
		return fmt.Errorf("refused: %w", err) // go-redis removes the outermost layer of the error
	}
	return nil
}

func evicts(info map[string]string) error {
	policy, known := info["maxmemory_policy"]
	if !known || policy == "noeviction" {
		return nil
	}
	return &engine.Error{
		Code: engine.CodeInternal, Op: "connecting to Redis",
		Err:  fmt.Errorf("%w: its maxmemory-policy is %s", ErrEvicts, policy),
		Hint: "set maxmemory-policy to noeviction, or use a separate server",
	}
}

var infoLine = regexp.MustCompile(`(?m)^(\w+):(.*?)\r?$`)

// ReadInfo adds the fields of an INFO answer to into.
func ReadInfo(text string, into map[string]string) {
	for _, line := range infoLine.FindAllStringSubmatch(text, -1) {
		into[line[1]] = line[2]
	}
}
