package connection

import (
	"context"
	"fmt"

	"github.com/redis/go-redis/v9"
)

// LogBy has the library of Redis call log with each line that it logs by itself: of sentinels, and of failures that its
// callers are told of too. It is for the whole process.
func LogBy(log func(ctx context.Context, line string)) { redis.SetLogger(logged(log)) }

type logged func(context.Context, string)

func (l logged) Printf(ctx context.Context, format string, values ...any) {
	l(ctx, fmt.Sprintf(format, values...))
}
