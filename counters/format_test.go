package counters

import (
	"fmt"
	"os"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/hap-worker/hap-worker/counters/script"
	"github.com/hap-worker/hap-worker/engine/account"
)

// TestRecordsAreAsDocumented compares the records in Redis with docs/redis.md, on which operators and
// docs/upgrade.md rely. A changed record is another format, and versions with different formats must
// not run side by side.
func TestRecordsAreAsDocumented(t *testing.T) {
	t.Parallel()
	binding := account.Record{State: "claimed", Tenant: "ga-1", Generation: 2, Confirmed: true, Count: 3, Claimed: 4, Pristine: false}
	runtime := account.Runtime{
		State: "assigned", Binding: "aws-1", Sequence: 5, Request: "q1", Confirmed: true, Origin: "own", Tenant: "ga-1",
	}
	documented := documentedRecords(t)
	for _, test := range []struct {
		key    string
		record any
		packed string
	}{
		{"hap:{pool}:b", binding, pack(binding)},
		{"hap:{pool}:r", runtime, packRuntime(runtime)},
	} {
		var want []string
		for _, field := range documented[test.key] {
			want = append(want, asWritten(t, test.record, field))
		}
		if got := strings.Join(want, "|"); got != test.packed {
			t.Errorf("%s is written as %s; docs/redis.md says %s, which is %s: adapt it, and docs/upgrade.md and the changelog where the format has changed",
				test.key, test.packed, strings.Join(documented[test.key], "|"), got)
		}
	}
}

// documentedRecords returns the fields of each record, by its key in docs/redis.md.
func documentedRecords(t *testing.T) map[string][]string {
	t.Helper()
	data, err := os.ReadFile("../docs/redis.md")
	if err != nil {
		t.Fatal(err)
	}
	found := map[string][]string{}
	for _, m := range regexp.MustCompile("(?m)^\\| `(hap:[^`]+)` \\| hash \\| \\w+ -> `([^`]+)`").FindAllStringSubmatch(string(data), -1) {
		found[m[1]] = strings.Split(m[2], `\|`)
	}
	return found
}

// asWritten is a field of a record, by its name in the documentation.
func asWritten(t *testing.T, record any, name string) string {
	t.Helper()
	v := reflect.ValueOf(record).FieldByName(strings.ToUpper(name[:1]) + name[1:])
	if !v.IsValid() {
		t.Fatalf("%T has no field %s", record, name)
	}
	if v.Kind() == reflect.Bool {
		return script.Flag(v.Bool())
	}
	return fmt.Sprint(v.Interface())
}
