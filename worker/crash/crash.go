// Package crash turns a panic into an error, so that it does not end the process.
package crash

import (
	"fmt"
	"runtime/debug"
	"sync/atomic"
)

// longestStack bounds the stack of a Panic, in bytes.
const longestStack = 8 << 10

// total counts the panics of this process.
var total atomic.Int64

// Total returns the number of panics that Guard has recovered in this process.
func Total() int64 { return total.Load() }

// Panic is the error of work that panicked. Its text includes the stack.
type Panic struct {
	Value any
	Stack string
}

func (p *Panic) Error() string { return p.Short() + "\n" + p.Stack }

// Short returns the text without the stack.
func (p *Panic) Short() string { return fmt.Sprintf("panic: %v", p.Value) }

// Guard calls do and returns its error. If do panics, Guard counts the panic and returns a *Panic.
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
