package counters_test

import (
	"testing"
	"time"

	"github.com/hap-worker/hap-worker/counters/counterstest"
	"github.com/hap-worker/hap-worker/engine/account"
)

// TestTokenOfAnotherRunIsRefused is rule 13e: a server that started again may have the token of a
// rebuild whose install it has lost. The rebuild of that token has ended; another one may begin at
// once.
func TestTokenOfAnotherRunIsRefused(t *testing.T) {
	t.Parallel()
	ctx, now := t.Context(), time.Unix(1_700_000_000, 0)
	server := counterstest.StartRedis(t, "--appendonly", "yes", "--appendfsync", "always")
	m := counterstest.NewMachine(server.Client(t), "")
	if mine, err := m.BeginRebuild(ctx, "p", "dead", now, time.Minute); err != nil || !mine {
		t.Fatalf("begin: %v, %v", mine, err)
	}

	server.Kill()
	server.Start(t)

	if mine, err := m.RenewRebuild(ctx, "p", "dead", now); err != nil || mine {
		t.Errorf("renewed on another run: %v, %v", mine, err)
	}
	if mine, err := m.BeginRebuild(ctx, "p", "dead", now, time.Minute); err != nil || mine {
		t.Errorf("begun again on another run: %v, %v", mine, err)
	}
	if built, err := m.Install(ctx, "p", "dead", account.Snapshot{Sequence: 4}); err != nil || built {
		t.Errorf("installed on another run: %v, %v", built, err)
	}
	if mine, err := m.BeginRebuild(ctx, "p", "next", now, time.Minute); err != nil || !mine {
		t.Errorf("the next rebuild waits for the dead one's lease: %v, %v", mine, err)
	}
	if built, err := m.Install(ctx, "p", "next", account.Snapshot{Sequence: 5}); err != nil || !built {
		t.Errorf("the next rebuild's install: %v, %v", built, err)
	}
}
