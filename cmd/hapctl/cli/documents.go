package cli

import (
	"fmt"
	"io"
	"slices"
	"strconv"

	"github.com/hap-worker/hap-worker/engine/document"
)

// DocumentCheckView is the result of a check of a document.
type DocumentCheckView struct {
	Valid    bool            `json:"valid"`
	Errors   document.Faults `json:"errors"`
	Warnings document.Faults `json:"warnings"`

	Rules int `json:"-"`
}

// Show writes whether the document is valid, or its faults, and its warnings.
func (v DocumentCheckView) Show(w io.Writer, _ bool) {
	header, faults := []string{"LINE", "PATH", "KIND", "MESSAGE"}, DocumentFaultRows(v.Errors)
	if slices.ContainsFunc(v.Errors, func(f document.Fault) bool { return f.File != "" }) {
		header = slices.Insert(header, 0, "FILE")
		for i := range faults {
			faults[i] = slices.Insert(faults[i], 0, v.Errors[i].File)
		}
	}
	showCheck(w, v.Valid, v.Rules, header, faults, DocumentFaultRows(v.Warnings))
}

// showCheck writes the result of checking a document: the number of valid rules or the faults, then the
// warnings.
func showCheck(w io.Writer, valid bool, rules int, header []string, faults, warnings [][]string) {
	if valid {
		fmt.Fprintf(w, "valid: %s\n", Count(rules, "rule"))
	} else {
		Table(w, header, faults)
	}
	if len(warnings) > 0 {
		fmt.Fprintln(w, "\nWarnings:")
		Table(w, header, warnings)
	}
}

// DocumentFaultRows returns a row of a table for each fault: line, path, kind and message.
func DocumentFaultRows(faults document.Faults) [][]string {
	dash := func(text string) string {
		if text == "" || text == "0" {
			return "-"
		}
		return text
	}
	var rows [][]string
	for _, f := range faults {
		rows = append(rows, []string{dash(strconv.Itoa(f.Line)), dash(f.Path), string(f.Kind), f.Message})
	}
	return rows
}
