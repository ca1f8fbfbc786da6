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

// Show writes the number of rules if the document is valid, otherwise the faults; then the warnings.
func (v DocumentCheckView) Show(w io.Writer, wide bool) {
	if v.Valid {
		fmt.Fprintf(w, "valid: %s\n", Count(v.Rules, "rule"))
	} else {
		ShowFaults(w, wide, v.Errors)
	}
	if len(v.Warnings) > 0 {
		fmt.Fprintln(w, "\nWarnings:")
		ShowFaults(w, wide, v.Warnings)
	}
}

// ShowFaults writes a table with a row for each fault, and with a column for files if a fault names one.
func ShowFaults(w io.Writer, wide bool, faults document.Faults) {
	header, rows, shorten := []string{"LINE", "PATH", "KIND", "MESSAGE"}, faultRows(faults), []string{"PATH"}
	if slices.ContainsFunc(faults, func(f document.Fault) bool { return f.File != "" }) {
		header, shorten = slices.Insert(header, 0, "FILE"), []string{"FILE", "PATH"}
		for i := range rows {
			rows[i] = slices.Insert(rows[i], 0, faults[i].File)
		}
	}
	FittedText(w, wide, header, rows, shorten...)
}

// faultRows returns a row for each fault: line, path, kind and message.
func faultRows(faults document.Faults) [][]string {
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
