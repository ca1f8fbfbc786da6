package crash

import (
	"errors"
	"strings"
	"testing"
)

func TestGuard(t *testing.T) {
	t.Parallel()
	if err := Guard(func() error { return nil }); err != nil {
		t.Errorf("no panic: %v", err)
	}
	broken := errors.New("broken")
	if err := Guard(func() error { return broken }); !errors.Is(err, broken) {
		t.Errorf("an error became %v", err)
	}
	before := Total()
	err := Guard(func() error { panic("boom") })
	p, is := errors.AsType[*Panic](err)
	if !is || p.Short() != "panic: boom" || !strings.Contains(p.Error(), "TestGuard") {
		t.Errorf("a panic became %v", err)
	}
	if Total() != before+1 {
		t.Errorf("%d panics are counted, want 1", Total()-before)
	}
}
