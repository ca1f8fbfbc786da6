// Package crash turns a panic into an error, so that it ends one piece of work and not
// the process.
package crash

import (
	"fmt"
	"runtime/debug"
	"sync/atomic"
)

// longestStack bounds what a log line has of a stack, in bytes.
const longestStack = 8 << 10

// total counts the panics of this process.
var total atomic.Int64

// Total is the number of panics that were recovered since the process began.
func Total() int64 { return total.Load() }

// Panic is work that panicked. Its text has the stack.
type Panic struct {
	Value any
	Stack string
}

func (p *Panic) Error() string { return p.Short() + "\n" + p.Stack }

// Short is the text without the stack, for those who do not read the log.
func (p *Panic) Short() string { return fmt.Sprintf("panic: %v", p.Value) }

// Guard calls do. A panic in it is counted, and is returned as a *Panic.
func Guard(do func() error) (err error) {
	defer func() {
		value := recover()
		if value == nil {
			return
		}
		total.Add(1)
		stack := debug.Stack()
		err = &Panic{Value: value, Stack: string(stack[:min(len(stack), longestStack)])}
	}()
	return do()
}
