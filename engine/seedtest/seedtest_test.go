package seedtest

import "testing"

func TestSeedIsFixedUnlessOneIsAskedFor(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]uint64{"": usual, "7": 7, "random": 5} {
		if got, err := parse(text, func() uint64 { return 5 }); err != nil || got != want {
			t.Errorf("%q is %d, %v, want %d", text, got, err, want)
		}
	}
	for _, text := range []string{"0", "-1", "some", "18446744073709551615"} {
		if got, err := parse(text, nil); err == nil {
			t.Errorf("%q is %d", text, got)
		}
	}
	if got, err := parse("random", func() uint64 { return 0 }); err != nil || got == 0 {
		t.Errorf("0 was drawn, and is %d, %v: rapid would draw another", got, err)
	}
}
