package clitest

import (
	"encoding/binary"
	"os"
	"unicode/utf16"

	"github.com/rogpeppe/go-internal/testscript"
)

// Encode is the command "encode FORM FILE…". It rewrites the files, which are UTF-8, in another form that
// editors and shells produce: utf8 and utf16 have a byte order mark, bare16 (UTF-16) and latin1 have none.
func Encode(ts *testscript.TestScript, negated bool, args []string) {
	if negated || len(args) < 2 {
		ts.Fatalf("usage: encode FORM FILE…")
	}
	for _, file := range args[1:] {
		text, content := ts.ReadFile(file), []byte(nil)
		switch args[0] {
		case "utf8":
			content = append([]byte("\xef\xbb\xbf"), text...)
		case "utf16", "bare16":
			if args[0] == "utf16" {
				content = []byte("\xff\xfe")
			}
			for _, unit := range utf16.Encode([]rune(text)) {
				content = binary.LittleEndian.AppendUint16(content, unit)
			}
		case "latin1":
			for _, c := range text {
				content = append(content, byte(c))
			}
		default:
			ts.Fatalf("there is no form %q", args[0])
		}
		ts.Check(os.WriteFile(ts.MkAbs(file), content, 0o600))
	}
}
