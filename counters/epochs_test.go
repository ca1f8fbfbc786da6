package counters_test

import (
	"context"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/hap-worker/hap-worker/counters/counterstest"
	"github.com/hap-worker/hap-worker/engine/account"
)

// TestEpochsOfAShortAnswer: a place whose answer cannot be read is not taken for one that is not built.
func TestEpochsOfAShortAnswer(t *testing.T) {
	t.Parallel()
	client := counterstest.Mini(t)
	m := counterstest.NewMachine(client, "")
	build(t, m, "p", "e1", account.Snapshot{})
	if epochs, err := m.Epochs(t.Context(), "p"); err != nil || epochs["p"] != "e1" {
		t.Fatalf("%v, %v", epochs, err)
	}
	client.AddHook(shortened{})
	if epochs, err := m.Epochs(t.Context(), "p"); err == nil {
		t.Errorf("the epochs are %v", epochs)
	}
	if built, err := m.Built(t.Context(), "p"); err == nil {
		t.Errorf("built is %v", built)
	}
}

// shortened is a connection that leaves out the last value of each answer in a pipeline.
type shortened struct{}

func (shortened) DialHook(next redis.DialHook) redis.DialHook          { return next }
func (shortened) ProcessHook(next redis.ProcessHook) redis.ProcessHook { return next }

func (shortened) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		err := next(ctx, cmds)
		for _, cmd := range cmds {
			if c, is := cmd.(*redis.Cmd); is {
				values, _ := c.Slice()
				if inner, nested := values[0].([]any); nested {
					values[0] = inner[:len(inner)-1]
				} else {
					values = values[:len(values)-1]
				}
				c.SetVal(values)
			}
		}
		return err
	}
}
