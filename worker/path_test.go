package worker_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/cockroachdb/datadriven"
)

// path lists the files through which an event runs, in the order in which it enters them, with what they do: the phases of
// Handler.answer by number, and what is before and after these. leads is where the path enters another package.
var path = []struct{ file, phases, leads string }{
	{"consume.go", "consume, decode", "`source.Source.Next`, `events.Decode`"},
	{"places.go", "consume", "`dispatch.Queue`"},
	{"handle.go", "0 to 5", "`storage.Ledger.Publish`"},
	{"trace.go", "all", "OpenTelemetry"},
	{"attempt.go", "all", ""},
	{"stored.go", "0, 1, 5", "`storage.Ledger.Last`"},
	{"provision.go", "2", "`rule.Ruleset.Match`, `gardener.Client.Referrer`"},
	{"claim.go", "2", "`counters.Store.LocateAndAssign`"},
	{"guarded.go", "2", "`bulkhead.Ask`"},
	{"shared.go", "2", ""},
	{"epochs.go", "2", ""},
	{"record.go", "2, 3", ""},
	{"settle.go", "5, settle", "`source.Message.Ack`"},
	{"faults.go", "settle", ""},
}

const (
	accessor  = 3  // lines; functions up to this length are left out of the table
	longest   = 60 // lines of a function on the path
	mostFiles = 12
	mostSteps = 52
)

// document has the table, after the first of these lines and before the second.
const (
	document   = "../docs/architecture.md"
	tableBegin = "\n### Where each step is\n\n"
	tableEnd   = "\n## The life of a binding\n"
)

// provisions names the environment variable by which TestToolPath tells a covered run of itself how many provisions to
// handle: the length of its value, less one.
const provisions = "HAP_PROVISIONS"

// step is a function of this package.
type step struct {
	file, name string
	begin, end int  // lines
	own, claim bool // it runs for a tenant that has an account, or for a new claim only
}

// TestToolPath holds the table to the functions that run in a covered build. UPDATE_DOCS=1 writes it.
func TestToolPath(t *testing.T) {
	t.Parallel()
	if n := os.Getenv(provisions); n != "" {
		synctest.Test(t, func(t *testing.T) { provision(t, len(n)-1) })
		return
	}
	steps, binary := functions(t), filepath.Join(t.TempDir(), "covered")
	if out, err := exec.CommandContext(t.Context(), "go", "test", "-c", "-covermode=atomic", "-coverpkg=.", "-o", binary, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	// A run counts more than the one before in the functions that its last provision needs.
	none, claim, own := counts(t, binary, steps, 0), counts(t, binary, steps, 1), counts(t, binary, steps, 2)
	for i := range steps {
		steps[i].own = own[i] > claim[i]
		steps[i].claim = !steps[i].own && claim[i] > none[i]
	}
	content, err := os.ReadFile(document)
	if err != nil {
		t.Fatal(err)
	}
	before, after, began := strings.Cut(string(content), tableBegin)
	is, after, ended := strings.Cut(after, tableEnd)
	if !began || !ended {
		t.Fatal("the document has no place for the table")
	}
	want := table(t, steps)
	if os.Getenv("UPDATE_DOCS") != "" {
		if err := os.WriteFile(document, []byte(before+tableBegin+want+tableEnd+after), 0o600); err != nil {
			t.Fatal(err)
		}
		is = want
	}
	if is != want {
		t.Errorf("%s differs from the covered run, which has\n%s\nUPDATE_DOCS=1 go test ./worker -run TestToolPath writes it", document, want)
	}
}

// table returns the table of the document.
func table(t *testing.T, steps []step) string {
	t.Helper()
	var rows, claims strings.Builder
	files, functions := 0, 0
	for _, s := range steps {
		if (s.own || s.claim) && !slices.ContainsFunc(path, func(p struct{ file, phases, leads string }) bool { return p.file == s.file }) {
			t.Errorf("%s runs %s: name the file's phases in path", s.file, s.name)
		}
	}
	for _, p := range path {
		var own, claim []string
		for _, s := range steps {
			switch {
			case s.file != p.file || s.end-s.begin < accessor:
			case s.own:
				own = append(own, "`"+s.name+"`")
			case s.claim:
				claim = append(claim, "`"+s.name+"`")
			}
		}
		if len(own) > 0 {
			files, functions = files+1, functions+len(own)
			fmt.Fprintf(&rows, "| `%s` | %s | %s | %s |\n", p.file, p.phases, strings.Join(own, ", "), p.leads)
		}
		if len(claim) > 0 {
			fmt.Fprintf(&claims, "; in `%s`: %s", p.file, strings.Join(claim, ", "))
		}
	}
	if files > mostFiles || functions > mostSteps {
		t.Errorf("the path has %d functions in %d files; at most %d in %d keep it readable", functions, files, mostSteps, mostFiles)
	}
	return fmt.Sprintf("These functions of package `worker` run for the first delivery of a provision whose tenant has an account, without network ranges: "+
		"%d in %d files, without those\nof up to %d lines. `TestToolPath` writes the table from a covered run. Functions stand in the order of their file, files in the order in which "+
		"the event enters them.\nWhat another package does counts there; the last column names where the path enters one.\n\n"+
		"| File | Phases | Functions | Leads to |\n|---|---|---|---|\n%s\nA new claim also runs%s.\n", functions, files, accessor, rows.String(), strings.Replace(claims.String(), ";", ",", 1))
}

// provision handles provisions of one tenant, one after another. The first claims an account.
func provision(t *testing.T, n int) {
	t.Helper()
	w := newWorld(t)
	defer w.end()
	w.line(t, &datadriven.TestData{Cmd: "landscape", Input: "binding b-1 aws"})
	w.line(t, &datadriven.TestData{Cmd: "start"})
	for i := range n {
		request, runtime := fmt.Sprint("p-", i), fmt.Sprint("rt-", i)
		told := w.line(t, &datadriven.TestData{Cmd: "provision", CmdArgs: []datadriven.CmdArg{{Key: request}, {Key: runtime}, {Key: "ga-1"}}})
		if !strings.Contains(told, request+" is assigned, b-1") {
			t.Error(told)
		}
	}
}

var block = regexp.MustCompile(`(?m)/worker/([a-z]+\.go):(\d+)\.\S+ \d+ (\d+)$`)

// counts returns how often the statements of each function ran while n provisions were handled.
func counts(t *testing.T, binary string, steps []step, n int) []int {
	t.Helper()
	profile := fmt.Sprint(binary, n)
	c := exec.CommandContext(t.Context(), binary, "-test.run=^TestToolPath$", "-test.coverprofile="+profile)
	c.Env = append(os.Environ(), provisions+"="+strings.Repeat("p", n+1))
	if out, err := c.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	content, err := os.ReadFile(profile)
	if err != nil {
		t.Fatal(err)
	}
	ran := make([]int, len(steps))
	for _, b := range block.FindAllStringSubmatch(string(content), -1) {
		line, err := strconv.Atoi(b[2])
		if err != nil {
			t.Fatal(err)
		}
		times, err := strconv.Atoi(b[3])
		if err != nil {
			t.Fatal(err)
		}
		for i, s := range steps {
			if s.file == b[1] && s.begin <= line && line <= s.end {
				ran[i] += times
			}
		}
	}
	return ran
}

// functions returns the functions of this package, in their order.
func functions(t *testing.T) (steps []step) {
	t.Helper()
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range slices.DeleteFunc(files, func(f string) bool { return strings.HasSuffix(f, "_test.go") }) {
		set := token.NewFileSet()
		tree, err := parser.ParseFile(set, file, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range tree.Decls {
			if f, ok := d.(*ast.FuncDecl); ok {
				steps = append(steps, step{file: file, name: f.Name.Name, begin: set.Position(f.Pos()).Line, end: set.Position(f.End()).Line})
			}
		}
	}
	return steps
}

var (
	named = regexp.MustCompile("`([a-z]+\\.go)`(?: \\| [^|]+ \\| |: )((?:`[A-Za-z]+`(?:, )?)+)")
	code  = regexp.MustCompile("`([A-Za-z]+)`")
	phase = regexp.MustCompile(`(?m)^\t+// (\d [a-z]+(?: [a-z]+)?): `)
)

// The functions of the table exist, and each can be read at once. TestToolPath holds that they are all.
func TestPathIsThatOfTheDocument(t *testing.T) {
	t.Parallel()
	content, err := os.ReadFile(document)
	if err != nil {
		t.Fatal(err)
	}
	steps, seen := functions(t), 0
	for _, row := range named.FindAllStringSubmatch(string(content), -1) {
		for _, name := range code.FindAllStringSubmatch(row[2], -1) {
			seen++
			i := slices.IndexFunc(steps, func(s step) bool { return s.file == row[1] && s.name == name[1] })
			if i < 0 {
				t.Errorf("%s has no function %s: UPDATE_DOCS=1 go test ./worker -run TestToolPath", row[1], name[1])
			} else if lines := steps[i].end - steps[i].begin + 1; lines > longest {
				t.Errorf("%s of %s has %d lines, more than %d", name[1], row[1], lines, longest)
			}
		}
	}
	if seen < mostSteps {
		t.Errorf("the table has %d functions, fewer than %d: the test does not see them", seen, mostSteps)
	}
}

// Both documents have the phases of Handler.answer, under the numbers that its comments have.
func TestPhasesAreNumberedAlike(t *testing.T) {
	t.Parallel()
	source, err := os.ReadFile("handle.go")
	if err != nil {
		t.Fatal(err)
	}
	phases := phase.FindAllStringSubmatch(string(source), -1)
	if len(phases) != 6 {
		t.Errorf("found the phases %q", phases)
	}
	for _, file := range []string{document, "../docs/life.md"} {
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for i, p := range phases {
			if !strings.HasPrefix(p[1], strconv.Itoa(i)) || !strings.Contains(string(content), "| "+p[1]+" |") {
				t.Errorf("%s has no row %q, or it is not phase %d", file, p[1], i)
			}
		}
	}
}
