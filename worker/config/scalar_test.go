package config

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	_ "github.com/hap-worker/hap-worker/engine/rapidtest" // fixes the seed
)

func TestDurationsReadBack(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		d := time.Duration(rapid.Int64Range(0, int64(400*day)).Draw(t, "duration"))
		if rapid.Bool().Draw(t, "whole seconds") {
			d = d.Truncate(time.Second)
		}
		text := formatDuration(d)
		if parsed, err := ParseDuration(text); err != nil || parsed != d {
			t.Fatalf("%v was written %q and read as %v, %v", d, text, parsed, err)
		}
	})
}

func TestSizesReadBack(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.Int64Range(0, 1<<62).Draw(t, "size") << rapid.IntRange(0, 1).Draw(t, "shift")
		if parsed, err := parseBytes(formatBytes(n)); n >= 0 && (err != nil || parsed != n) {
			t.Fatalf("%d was written %q and read as %d, %v", n, formatBytes(n), parsed, err)
		}
	})
}

func TestDurations(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]time.Duration{
		"0": 0, "0s": 0, "90s": 90 * time.Second, "7d": 7 * day, "1d12h": 36 * time.Hour, " 10m ": 10 * time.Minute, "-1d": -day,
	} {
		if got, err := ParseDuration(text); err != nil || got != want {
			t.Errorf("%q is %v, %v; want %v", text, got, err, want)
		}
	}
	for _, text := range []string{"", "10", "d", "1.5d", "1dd", "106752d", "99999999999d", "106751d24h", "10 minutes", "-1d1h-"} {
		if got, err := ParseDuration(text); err == nil {
			t.Errorf("%q is %v, want an error", text, got)
		}
	}
}

func TestSizes(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]int64{"0": 0, "1024": 1024, "1Ki": 1024, "512MiB": 512 << 20, "1G": 1e9, "2 Ti": 2 << 40, "5B": 5} {
		if got, err := parseBytes(text); err != nil || got != want {
			t.Errorf("%q is %v, %v; want %v", text, got, err, want)
		}
	}
	for _, text := range []string{"", "Gi", "1.5Gi", "9999999Ti", "1gi", "x"} {
		if got, err := parseBytes(text); err == nil {
			t.Errorf("%q is %v, want an error", text, got)
		}
	}
}
