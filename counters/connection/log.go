package connection

import (
	"context"
	"fmt"

	"github.com/redis/go-redis/v9"
)

// LogBy makes go-redis call log with each line that it logs itself, for example about sentinels, or about failures that
// it also returns to its callers. It is for the whole process.
func LogBy(log func(ctx context.Context, line string)) { redis.SetLogger(logged(log)) }

type logged func(context.Context, string)

func (l logged) Printf(ctx context.Context, format string, values ...any) {
	l(ctx, fmt.Sprintf(format, values...))
}
