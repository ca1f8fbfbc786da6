package rapidtest

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// Two properties in one process draw the same values.
func TestRapidDrawsTheSameEveryTime(t *testing.T) {
	var drawn [2][]uint64
	for i := range drawn {
		rapid.Check(t, func(t *rapid.T) { drawn[i] = append(drawn[i], rapid.Uint64().Draw(t, "value")) })
	}
	if len(drawn[0]) == 0 || !slices.Equal(drawn[0], drawn[1]) {
		t.Errorf("drawn were %v and then %v", drawn[0], drawn[1])
	}
}
