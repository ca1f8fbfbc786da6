package document

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/binary"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/hap-worker/hap-worker/engine/spelling"
)

// markUTF8 is the byte order mark that some editors put before UTF-8.
var markUTF8 = []byte("\xef\xbb\xbf")

const saveUTF8 = "save the file as UTF-8"

// Text returns the content of a file as UTF-8 without a byte order mark. It accepts UTF-8, and UTF-16 with
// its byte order mark. The error is a [Faults] with one fault, which has the line and the column, in bytes, of the
// first byte 0 or, without any, of the first byte that is no UTF-8.
func Text(content []byte) ([]byte, error) {
	text := bytes.TrimPrefix(content, markUTF8)
	if order := order16(content); order != nil {
		text = decode16(content[2:], order)
	}
	if at := bytes.IndexByte(text, 0); at >= 0 {
		if at < 4 && len(text) > 1 {
			return nil, notText(text, at, "is UTF-16 without a byte order mark, or no text; "+saveUTF8)
		}
		return nil, notText(text, at, "is no text: it has a byte 0 in column %d; "+saveUTF8)
	}
	for at := 0; at < len(text); {
		r, size := utf8.DecodeRune(text[at:])
		if r == utf8.RuneError && size == 1 {
			return nil, notText(text, at, fmt.Sprintf("is no UTF-8: it has the byte 0x%X in column %%d, counted in bytes; ", text[at])+saveUTF8)
		}
		at += size
	}
	return text, nil
}

// order16 returns the byte order of UTF-16 by its mark, nil if content does not begin with one.
func order16(content []byte) binary.ByteOrder {
	switch {
	case bytes.HasPrefix(content, []byte("\xff\xfe")):
		return binary.LittleEndian
	case bytes.HasPrefix(content, []byte("\xfe\xff")):
		return binary.BigEndian
	}
	return nil
}

// decode16 decodes UTF-16. A lone surrogate and a trailing byte become U+FFFD.
func decode16(content []byte, order binary.ByteOrder) []byte {
	units := make([]uint16, 0, len(content)/2+1)
	for pair := range slices.Chunk(content, 2) {
		if len(pair) < 2 {
			units = append(units, utf8.RuneError)
			break
		}
		units = append(units, order.Uint16(pair))
	}
	return []byte(string(utf16.Decode(units)))
}

// notText returns a fault with the line of the byte at an offset. A %d in format becomes its column.
func notText(text []byte, at int, format string) Faults {
	line := 1 + bytes.Count(text[:at], []byte("\n"))
	column := at - bytes.LastIndexByte(text[:at], '\n')
	if strings.Contains(format, "%d") {
		format = fmt.Sprintf(format, column)
	}
	return Faults{{Line: line, Column: column, Kind: Syntax, Message: format}}
}

// Stream returns in as UTF-8 without a byte order mark, to be read line by line. It reads UTF-16 to the end
// first. It does not check UTF-8: the caller sees invalid bytes.
func Stream(in io.Reader) (io.Reader, error) {
	buffered := bufio.NewReader(in)
	first, _ := buffered.Peek(1) // an error returns again with the next read
	if len(first) == 0 || first[0] < utf8.RuneSelf {
		return buffered, nil
	}
	begin, _ := buffered.Peek(len(markUTF8))
	switch {
	case bytes.Equal(begin, markUTF8):
		_, err := buffered.Discard(len(markUTF8))
		return buffered, err
	case order16(begin) == nil:
		return buffered, nil
	}
	content, err := io.ReadAll(buffered)
	if err == nil {
		content, err = Text(content)
	}
	return bytes.NewReader(content), err
}

// strange adds a fault for a tab that indents, or for a control character: the YAML library's error does not
// name the character. It returns false, and adds nothing, if text is another error or no such character is
// found.
func (r *Reader) strange(text string) bool {
	from := 0
	if found := yamlLine.FindStringSubmatch(text); found != nil {
		from, _ = strconv.Atoi(found[1])
	}
	lines := r.split()
	for i := max(0, from-1); i < len(lines); i++ {
		switch {
		case strings.HasSuffix(text, "control characters are not allowed"):
			for column, c := range []rune(lines[i]) {
				if unicode.IsControl(c) && c != '\t' && c != '\r' && c != '\u0085' || c == '\ufffe' || c == '\uffff' {
					r.fault(i+1, column+1, "", Syntax, "is no YAML: column %d has %s; leave it out", column+1, spelling.Letter{Rune: c})
					return true
				}
			}
		case !tabbed.MatchString(text):
			return false
		default:
			if before := indented.FindString(lines[i]); before != "" {
				r.fault(i+1, len(before), "", Syntax, "is no YAML: it has a tab in column %d; indent with spaces", len(before))
				return true
			}
		}
	}
	return false
}

var (
	tabbed   = regexp.MustCompile(`found a tab character|found character that cannot start any token`)
	indented = regexp.MustCompile(`^[ -]*\t`)
)

// split returns the lines of the present file.
func (r *Reader) split() []string {
	if r.lines == nil {
		r.lines = strings.Split(string(r.content), "\n")
	}
	return r.lines
}

// Strange adds a fault if find finds a character in the node's text, and reports whether it did.
func (n Node) Strange(find func(string) (spelling.Letter, bool)) bool {
	y := n.resolved()
	if y == nil {
		return false
	}
	l, found := find(y.Value)
	if found {
		n.letter(y.Line, y.Column, l)
	}
	return found
}

// StrangeName does the same as Strange, for the name of a field.
func (n Node) StrangeName(find func(string) (spelling.Letter, bool)) bool {
	l, found := find(n.Name)
	if found {
		n.letter(cmp.Or(n.KeyLine, n.Line), 1, l)
	}
	return found
}

// letter adds a fault for a character in a text that begins at line and column, or after it. The fault has the
// column of the character; if that is escaped or in a later line, the fault has the given column.
func (n Node) letter(line, column int, l spelling.Letter) {
	where := fmt.Sprintf("as its character %d", l.Column)
	if lines := n.reader.split(); line > 0 && line <= len(lines) {
		if runes := []rune(lines[line-1]); column <= len(runes) {
			if at := slices.Index(runes[column-1:], l.Rune); at >= 0 {
				column += at
				where = fmt.Sprintf("in column %d", column)
			}
		}
	}
	n.reader.fault(line, column, n.Path, Syntax, "has a character that does not belong here, %s: %s", where, l)
}
