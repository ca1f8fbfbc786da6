package config

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

// spellings are numbers that YAML readers interpret differently, or reject.
var spellings = []string{
	"3", "03", "010", "08", "-010", "+010", "0x3", "0o3", "0b11", "1_000", "0_3", "1e3", "1e6", "1000000", "0", "00", "+3", "-3", "0.5", "00.5", ".5", "1e-2", "0x1p-2",
	"9223372036854775807", "9223372036854775808", "1e30", "nan", ".nan", "inf", ".inf", "three", "3Mi", "03Mi", "3s", "03s",
}

// TestNumbersHaveOneReading: in every key, a number has the same value in a file and in the environment, or
// is rejected in both.
func TestNumbersHaveOneReading(t *testing.T) {
	t.Parallel()
	paths := []string{"hap.multiHyperscalerAccount.limits.aws", "hap.multiHyperscalerAccount.limits.default"}
	for _, l := range leaves(Default()) {
		switch l.value.Interface().(type) {
		case int, int64, float64, time.Duration:
			paths = append(paths, l.path)
		}
	}
	if len(paths) < 15 {
		t.Fatalf("only %d keys have numbers", len(paths))
	}
	for _, path := range paths {
		for _, text := range spellings {
			file := text
			for _, key := range slices.Backward(strings.Split(path, ".")) {
				file = "{" + key + ": " + file + "}"
			}
			variable := "HAP_" + strings.ToUpper(strings.ReplaceAll(path, ".", "_")) + "=" + text
			inFile, fileErr := parse("hap.yaml", []byte(file), nil)
			inEnv, envErr := parse("", nil, []string{variable})
			switch {
			case (fileErr == nil) != (envErr == nil):
				t.Errorf("%s: %s is refused in one place only:\nfile: %v\nenvironment: %v", path, text, fileErr, envErr)
			case fileErr == nil && !reflect.DeepEqual(valuesOf(inFile), valuesOf(inEnv)):
				t.Errorf("%s: %s has two readings:\nfile: %v\nenvironment: %v", path, text, valuesOf(inFile), valuesOf(inEnv))
			}
		}
	}
}

// TestLeadingZeros: a number with a leading zero is rejected, since some readers take it as octal. The
// message has both values.
func TestLeadingZeros(t *testing.T) {
	t.Parallel()
	const says = `begins with a zero, which some take for octal; write 10, or 8 if octal is meant`
	for _, key := range []string{"worker.concurrency", "nats.maxBytes", "telemetry.traceRatio", "hap.multiHyperscalerAccount.limits.aws"} {
		path := strings.Split(key, ".")
		file := "010"
		for _, part := range slices.Backward(path) {
			file = "{" + part + ": " + file + "}"
		}
		variable := "HAP_" + strings.ToUpper(strings.Join(path, "_"))
		_, fileErr := parse("hap.yaml", []byte(file), nil)
		_, envErr := parse("", nil, []string{variable + "=010"})
		for place, err := range map[string]error{"hap.yaml": fileErr, variable: envErr} {
			if err == nil || !strings.Contains(err.Error(), key+": ") || !strings.Contains(err.Error(), says) || !strings.HasPrefix(err.Error(), place) {
				t.Errorf("%s in %s: %v, want %s", key, place, err, says)
			}
		}
	}
}

func valuesOf(c *Config) string {
	var all strings.Builder
	for _, l := range leaves(c) {
		fmt.Fprintf(&all, "%s=%v ", l.path, l.value.Interface())
	}
	return all.String()
}
