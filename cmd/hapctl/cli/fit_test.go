package cli

import (
	"bytes"
	"strings"
	"testing"
)

// TestWhatIsShortened: the named columns are shortened in this order, and each keeps enough to tell two names
// apart.
func TestWhatIsShortened(t *testing.T) {
	t.Parallel()
	header := []string{"NAME", "SHORT", "FIRST", "SECOND"}
	long := strings.Repeat("n", 40)
	for _, c := range []struct {
		name, first, second string
		want                string
	}{
		{"n", "f", "s", "n     -      f      s\n"},
		{long, strings.Repeat("f", 20), "s", long + "  -      " + strings.Repeat("f", 20) + "  s\n"},
		{long, strings.Repeat("f", 20), strings.Repeat("s", 12), long + "  -      " + strings.Repeat("f", 16) + "…  " + strings.Repeat("s", 12) + "\n"},
		{long, strings.Repeat("f", 20), strings.Repeat("s", 40), long + "  -      ffffffff…  " + strings.Repeat("s", 19) + "…\n"},
		{strings.Repeat("n", 70), strings.Repeat("f", 20), strings.Repeat("s", 40), strings.Repeat("n", 70) + "  -      ffffffff…  ssssssss…\n"},
		{"n", "\u202e" + strings.Repeat("f", 20), "ä" + strings.Repeat("s", 60), `n     -      \u202eff…  ä` + strings.Repeat("s", 54) + "…\n"},
	} {
		var out bytes.Buffer
		Fitted(&out, header, [][]string{Dashed([]string{c.name, "", c.first, c.second})}, "FIRST", "SECOND")
		if _, row, _ := strings.Cut(out.String(), "\n"); row != c.want {
			t.Errorf("the row is\n%swant\n%s", row, c.want)
		}
	}
}

// TestDifferencesBelowATable: they are wrapped between words.
func TestDifferencesBelowATable(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	Folded(&out, "aws-7:", "its labels put it into pool aws_cf-eu11+eu+shared,\nRedis\u202e has it in gcp_cf-sa30 with 4 clusters")
	if want := "aws-7: its labels put it into pool aws_cf-eu11+eu+shared, Redis\\u202e has it\n  in gcp_cf-sa30 with 4 clusters\n"; out.String() != want {
		t.Errorf("told\n%swant\n%s", &out, want)
	}
}
