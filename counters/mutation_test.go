package counters_test

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/hap-worker/hap-worker/counters/counterstest"
	"github.com/hap-worker/hap-worker/engine/account/accounttest"
)

// TestEveryRuleIsTold removes one condition after the other from the scripts: the story of its rule
// must then fail. If the story does not fail, no test checks the rule.
func TestEveryRuleIsTold(t *testing.T) {
	t.Parallel()
	for _, m := range mutations {
		t.Run(m.story+"/"+m.what, func(t *testing.T) {
			t.Parallel()
			client := counterstest.Mini(t)
			fault := &mutant{mutation: m}
			client.AddHook(fault)
			if !fails(t, func(t testing.TB) {
				accounttest.Tell(t, m.story, counterstest.NewMachine(client, ""))
			}) {
				t.Errorf("the story does not notice that\n%s\nbecame\n%s", m.old, m.now)
			}
			if !fault.applied {
				t.Errorf("no script that ran has\n%s", m.old)
			}
		})
	}
}

// mutation removes a rule from the scripts.
type mutation struct{ story, what, old, now string }

// mutant is a connection that changes the scripts on their way. It answers EVALSHA like a server
// without scripts.
type mutant struct {
	mutation
	applied bool
}

func (m *mutant) DialHook(next redis.DialHook) redis.DialHook { return next }

func (m *mutant) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (m *mutant) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		switch args := cmd.Args(); args[0] {
		case "evalsha":
			err := noScript{errors.New("NOSCRIPT No matching script")}
			cmd.SetErr(err)
			return err
		case "eval":
			text := args[1].(string)
			m.applied = m.applied || strings.Contains(text, m.old)
			args[1] = strings.ReplaceAll(text, m.old, m.now)
		}
		return next(ctx, cmd)
	}
}

// noScript is an error that go-redis takes for a server's answer.
type noScript struct{ error }

func (noScript) RedisError() {}

// fails reports whether a test fails, without failing.
func fails(t testing.TB, test func(t testing.TB)) bool {
	probe := &probe{TB: t}
	done := make(chan struct{})
	go func() {
		defer close(done)
		test(probe)
	}()
	<-done
	return probe.failed
}

// probe is a test that only notes that it failed.
type probe struct {
	testing.TB
	failed bool
}

func (p *probe) Error(...any)          { p.failed = true }
func (p *probe) Errorf(string, ...any) { p.failed = true }
func (p *probe) Fail()                 { p.failed = true }
func (p *probe) Failed() bool          { return p.failed }
func (p *probe) Fatal(...any)          { p.FailNow() }
func (p *probe) Fatalf(string, ...any) { p.FailNow() }
func (p *probe) Log(...any)            {}
func (p *probe) Logf(string, ...any)   {}
func (p *probe) FailNow() {
	p.failed = true
	runtime.Goexit()
}
