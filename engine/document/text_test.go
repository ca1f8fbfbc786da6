package document_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"unicode/utf16"

	"github.com/hap-worker/hap-worker/engine/document"
	"github.com/hap-worker/hap-worker/engine/spelling"
)

// utf16Of returns the text in UTF-16 after a byte order mark.
func utf16Of(mark, text string, order binary.AppendByteOrder) string {
	content := []byte(mark)
	for _, unit := range utf16.Encode([]rune(text)) {
		content = order.AppendUint16(content, unit)
	}
	return string(content)
}

func TestTextOfAnyEncoding(t *testing.T) {
	t.Parallel()
	const text = "name: größe \U0001f600\nlist: [a]\n"
	little, big := utf16Of("\xff\xfe", text, binary.LittleEndian), utf16Of("\xfe\xff", text, binary.BigEndian)
	for _, content := range []string{text, "\xef\xbb\xbf" + text, little, big} {
		read, err := document.Text([]byte(content))
		if err != nil || string(read) != text {
			t.Errorf("%q is %q, %v", content, read, err)
		}
		in, err := document.Stream(io.MultiReader(strings.NewReader(content[:1]), strings.NewReader(content[1:])))
		if err != nil {
			t.Errorf("%q: %v", content, err)
			continue
		}
		if read, err := io.ReadAll(in); err != nil || string(read) != text {
			t.Errorf("the stream %q is %q, %v", content, read, err)
		}
		var r document.Reader
		n, ok := r.One([]byte(content), "write something")
		if o, _ := n.Object("name", "list"); !ok || len(o.Fields) != 2 || o.Fields[1].Line != 2 {
			t.Errorf("%q is read as %+v: %v", content, n, r.Faults)
		}
	}
}

func TestTextThatIsNone(t *testing.T) {
	t.Parallel()
	for content, want := range map[string]string{
		"":                         "",
		"\xff\xfe":                 "",
		"a: 1\nb: g\xe4p":          "2:5 is no UTF-8: it has the byte 0xE4 in column 5, counted in bytes; save the file as UTF-8",
		"ü\xff":                    "1:3 is no UTF-8: it has the byte 0xFF in column 3, counted in bytes; save the file as UTF-8",
		"a\x00:\x00":               "1:2 is UTF-16 without a byte order mark, or no text; save the file as UTF-8",
		"\x00a\x00:":               "1:1 is UTF-16 without a byte order mark, or no text; save the file as UTF-8",
		"abcd\nab\x00c":            "2:3 is no text: it has a byte 0 in column 3; save the file as UTF-8",
		"\xff\xfea\x00\x00\x00":    "1:2 is UTF-16 without a byte order mark, or no text; save the file as UTF-8",
		"\xff\xfea\x00b":           "", // half a character, which the grammars refuse
		"\xef\xbb\xbf\xef\xbb\xbf": "",
	} {
		_, err := document.Text([]byte(content))
		got := ""
		if faults, is := errors.AsType[document.Faults](err); is {
			got = fmt.Sprintf("%d:%d %s", faults[0].Line, faults[0].Column, faults[0].Message)
		}
		if got != want || (err == nil) != (want == "") {
			t.Errorf("%q: %v\nwant %s", content, got, want)
		}
		var r document.Reader
		r.All([]byte(content))
		if want != "" && (len(r.Faults) != 1 || r.Faults[0].Message != want[4:]) {
			t.Errorf("a reader finds %v in %q", r.Faults, content)
		}
	}
	in, err := document.Stream(strings.NewReader("\xff\xfea\x00\x00\x00"))
	if _, is := errors.AsType[document.Faults](err); !is {
		t.Errorf("%v of %v", err, in)
	}
	if in, err = document.Stream(strings.NewReader("\xe4a")); err != nil {
		t.Fatal(err)
	}
	if left, err := io.ReadAll(in); err != nil || !bytes.Equal(left, []byte("\xe4a")) {
		t.Errorf("%q is left, %v", left, err)
	}
}

// A fault has the character's column in the line, or the column of the text if the file escapes the
// character.
func TestStrangeCharactersHaveTheirColumn(t *testing.T) {
	t.Parallel()
	const content = "name: l\u0430n\nlist: [ok, \"a\\u200b\", 'b\u00a0c']\n\"fr\u0435e\": {}\nfree: &x d\u00ade\nnumber: *x\n"
	var r document.Reader
	root, _ := r.One([]byte(content), "write something")
	o, _ := root.Object()
	for _, n := range o.Fields {
		n.StrangeName(spelling.Deceptive)
		if !n.Sequence() {
			n.Strange(spelling.Deceptive)
			continue
		}
		items, _ := n.List()
		for _, item := range items {
			item.Strange(spelling.Deceptive)
		}
	}
	var b strings.Builder
	for _, f := range r.Faults {
		fmt.Fprintf(&b, "%d:%d %s: %s\n", f.Line, f.Column, f.Path, strings.TrimPrefix(f.Message, "has a character that does not belong here, "))
	}
	const want = `1:8 name: in column 8: CYRILLIC SMALL LETTER A, U+0430; write "a"
2:12 list[1]: as its character 2: ZERO WIDTH SPACE, U+200B; leave it out
2:25 list[2]: in column 25: NO-BREAK SPACE, U+00A0; write a space, or leave it out
3:4 [frеe]: in column 4: CYRILLIC SMALL LETTER IE, U+0435; write "e"
4:11 free: in column 11: SOFT HYPHEN, U+00AD; leave it out
4:11 number: in column 11: SOFT HYPHEN, U+00AD; leave it out
`
	if b.String() != want {
		t.Errorf("%s\nwant\n%s", b.String(), want)
	}
}
