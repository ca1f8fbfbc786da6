package cli

import (
	"bytes"
	"encoding/json"
	"io"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/hap-worker/hap-worker/cmd/hapctl/clitest"
)

func TestVisible(t *testing.T) {
	t.Parallel()
	for from, want := range map[string]string{
		"": "",
		"two\n\tlines, äöü, 日本語, שלום, 🚀": "two\n\tlines, äöü, 日本語, שלום, 🚀",
		"\x1b]0;title\x07":       `\u001b]0;title\u0007`,
		"a\rb\r\n":               `a\rb\r` + "\n",
		"a\u202eb\u2066c\u200fd": `a\u202eb\u2066c\u200fd`,
		"\u009b31m":              `\u009b31m`,
		"\x9b31m":                `\x9b31m`,
		"\x7f\x00":               `\u007f\u0000`,
		"\u2028\u200b\ufeff":     `\u2028\u200b\ufeff`,
		"a\u3164\u115f\ufe0fb":   `a\u3164\u115f\ufe0fb`,
		"\U000e0041":             `\udb40\udc41`,
		"cut off \xe2\x80":       `cut off \xe2\x80`,
	} {
		var out bytes.Buffer
		if n, err := (Stream{&out}).Write([]byte(from)); err != nil || n != len(from) || out.String() != want {
			t.Errorf("%q is written as %q (%d, %v), want %q", from, &out, n, err, want)
		}
	}
}

// The cells are escaped before the widths of the columns are measured.
func TestCellsKeepTheirColumns(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	Table(Stream{&out}, []string{"NAME", "NEXT"}, [][]string{{"\x1b[2K", "a"}, {"b\r", "c\nd"}, {"\xff", "e"}})
	const want = "NAME       NEXT\n" + `\u001b[2K  a` + "\n" + `b\r        c d` + "\n" + `\xff       e` + "\n"
	if out.String() != want {
		t.Errorf("%s\nwant\n%s", &out, want)
	}
}

// hiding adds texts with hidden characters, and texts that only look like that.
func hiding(f *testing.F) {
	f.Helper()
	for _, seed := range []string{"plain", "\x1b]0;x\x07", "\u202e\r\n\t", "\x9b\u009b", "\U000e0001\ue000", `\u001b`, "\xed\xa0\x80", "a: b # c", "\u2028\u0085", "\u2028", "\ufffd"} {
		f.Add(seed)
	}
}

// FuzzVisible: no control passes to a terminal, escaping twice changes nothing more, and a text without
// hidden characters stays unchanged.
func FuzzVisible(f *testing.F) {
	hiding(f)
	f.Fuzz(func(t *testing.T, text string) {
		once := string(visible([]byte(text)))
		if what, is := clitest.Acts(once); is {
			t.Errorf("%q: %q passes", text, what)
		}
		if twice := string(visible([]byte(once))); twice != once {
			t.Errorf("%q is %q at first and then %q", text, once, twice)
		}
		if _, is := clitest.Acts(text); !is && !hides([]byte(text)) && once != text {
			t.Errorf("%q is written as %q", text, once)
		}
	})
}

// FuzzForms: JSON and YAML contain no control for a terminal, and decode to the values that were encoded.
func FuzzForms(f *testing.F) {
	hiding(f)
	f.Fuzz(func(t *testing.T, text string) {
		valid := strings.ToValidUTF8(text, "\ufffd")
		for form, write := range map[string]func(io.Writer) error{
			"JSON": func(w io.Writer) error { return EncodeJSON(w, map[string]string{"text": valid}, "  ") },
			"YAML": func(w io.Writer) error { return EncodeYAML(w, map[string]string{"text": valid}) },
		} {
			var out bytes.Buffer
			if err := write(Stream{&out}); err != nil {
				t.Fatal(err)
			}
			if what, is := clitest.Acts(out.String()); is {
				t.Errorf("%q as %s: %q passes", text, form, what)
			}
			var back map[string]string
			read := json.Unmarshal
			if form == "YAML" {
				read = func(text []byte, to any) error { return yaml.Unmarshal(text, to) }
			}
			if err := read(out.Bytes(), &back); err != nil || back["text"] != valid {
				t.Errorf("%q as %s is %q, which is read as %q, %v", text, form, &out, back, err)
			}
		}
	})
}
