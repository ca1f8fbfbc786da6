package app

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/hap-worker/hap-worker/cmd/hapctl/cli"
)

// documented is a row of the table of commands in docs/hapctl.md.
type documented struct {
	output string // forms, "forms, name", lines or text
	codes  []int
}

// story is one run of hapctl in a script: its command line, and the parts of the result that the script
// checks.
type story struct {
	at      string // file and line
	code    int
	args    []string
	looks   bool // the script checks standard output
	streams bool // the script writes its input line by line
}

// TestEveryFormAndExitCodeHasAScript: docs/hapctl.md lists the output formats and exit codes of every
// command. There is a script for each of them, here or in folder integration, and none that ends with another
// code. A format counts if the script checks the output and the command had a result, a code counts with any
// format. Each --stdin is tested line by line.
func TestEveryFormAndExitCodeHasAScript(t *testing.T) {
	t.Parallel()
	want := documentedCommands(t)
	told := map[string]map[string]bool{}
	for _, s := range stories(t) {
		command, is := s.tells(t)
		if command == "" {
			continue
		}
		if told[command] == nil {
			told[command] = map[string]bool{}
		}
		for _, what := range is {
			told[command][what] = true
		}
		if row, known := want[command]; known && !slices.Contains(row.codes, s.code) {
			t.Errorf("%s: %s ends with %d, which docs/hapctl.md does not have", s.at, command, s.code)
		}
	}
	every(testRoot(), func(cmd *cobra.Command) {
		name := strings.TrimPrefix(cmd.CommandPath(), "hapctl ")
		if onlyGroups(cmd) {
			return
		}
		row, known := want[name]
		if strings.HasSuffix(row.output, ", name") != (cmd.Annotations[cli.HasNames] != "") {
			t.Errorf("docs/hapctl.md has %q of %s, which is not what -o name does", row.output, name)
		}
		if !known {
			t.Errorf("docs/hapctl.md does not say what %s writes and which exit codes it has", name)
		}
		delete(want, name)
		for _, what := range row.expected(cmd) {
			if !told[name][what] {
				t.Errorf("no script has %s with %s", name, what)
			}
		}
	})
	for name := range want {
		t.Errorf("docs/hapctl.md has %s, which is no command", name)
	}
}

func testRoot() *cobra.Command { return newRoot(testShell()) }

func testShell() *cli.Shell {
	return cli.New(strings.NewReader(""), io.Discard, io.Discard)
}

// onlyGroups reports a command that does nothing by itself.
func onlyGroups(cmd *cobra.Command) bool {
	return strings.HasSuffix(cmd.Use, "COMMAND") || cmd.Name() == "help"
}

// expected returns everything about a command that scripts must test.
func (d documented) expected(cmd *cobra.Command) []string {
	var out []string
	switch d.output {
	case "forms", "forms, name":
		for _, f := range cli.Formats {
			out = append(out, "-o "+f)
		}
		if d.output == "forms, name" {
			out = append(out, "-o name")
		}
	case "text":
		out = append(out, "output")
	}
	if cmd.Flag("stdin") != nil {
		out = append(out, "--stdin line by line")
	}
	for _, code := range d.codes {
		out = append(out, fmt.Sprint("exit code ", code))
	}
	return out
}

// tells returns the command of a run, and what the run tests. The command is "" for help texts and wrong
// names.
func (s story) tells(t *testing.T) (command string, is []string) {
	t.Helper()
	sh := testShell()
	cmd, rest, err := newRoot(sh).Find(s.args)
	if err != nil || onlyGroups(cmd) || strings.HasPrefix(s.args[0], "__") {
		return "", nil
	}
	faulty := cmd.ParseFlags(rest) != nil
	if help := cmd.Flag("help"); help != nil && help.Changed || slices.Contains(rest, "--help") {
		return "", nil
	}
	if faulty && s.code != cli.ExitUsage {
		t.Errorf("%s: these flags are not understood, and the exit code is %d", s.at, s.code)
	}
	is = append(is, fmt.Sprint("exit code ", s.code))
	if s.streams {
		is = append(is, "--stdin line by line")
	}
	// With 1 and 124 there may be a message in place of the result.
	if s.looks && slices.Contains([]int{cli.ExitDone, cli.ExitInvalid, cli.ExitNothing, cli.ExitConflict}, s.code) {
		is = append(is, "output")
		if !inLines(cmd) {
			is = append(is, "-o "+sh.Format.String())
		}
	}
	return strings.TrimPrefix(cmd.CommandPath(), "hapctl "), is
}

// inLines reports whether the results are lines in every format: with --stdin, and with -f for commands that
// publish the requests in a file.
func inLines(cmd *cobra.Command) bool {
	changed := func(flag string) bool { f := cmd.Flag(flag); return f != nil && f.Changed }
	return changed("stdin") || changed("file") && cmd.Flag("no-wait") != nil
}

// documentedCommands reads the table.
func documentedCommands(t *testing.T) map[string]documented {
	t.Helper()
	page, err := os.ReadFile("../../../docs/hapctl.md")
	if err != nil {
		t.Fatal(err)
	}
	rows := map[string]documented{}
	row := regexp.MustCompile("(?m)^\\| `([a-z ]+)` \\| (forms|forms, name|lines|text) \\| ([0-9 ]+) \\|$")
	for _, cells := range row.FindAllStringSubmatch(string(page), -1) {
		d := documented{output: cells[2]}
		for code := range strings.FieldsSeq(cells[3]) {
			d.codes = append(d.codes, atoi(t, code))
		}
		rows[cells[1]] = d
	}
	return rows
}

// stories reads all scripts, and adds the commands of TestUnreachable.
func stories(t *testing.T) []story {
	t.Helper()
	var all []story
	for _, command := range unreachable {
		all = append(all, story{at: "unreachable_test.go", code: cli.ExitFailure, args: strings.Fields(command)})
	}
	for _, pattern := range []string{"testdata/script/*.txtar", "../../../integration/testdata/hapctl*/*.txtar"} {
		paths, err := filepath.Glob(pattern)
		if err != nil || len(paths) == 0 {
			t.Fatalf("%s: %d scripts, %v", pattern, len(paths), err)
		}
		for _, path := range paths {
			all = append(all, storiesOf(t, path)...)
		}
	}
	return all
}

func storiesOf(t *testing.T, path string) []story {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	script, _, _ := strings.Cut(string(content), "\n-- ")
	var all []story
	for i, line := range strings.Split(script, "\n") {
		words := scriptWords(line)
		if len(words) == 0 {
			continue
		}
		switch at := slices.Index(words, "hapctl"); {
		case at > 1 && (words[0] == "exits" || words[0] == "converses"):
			all = append(all, story{
				at: fmt.Sprintf("%s:%d", path, i+1), code: atoi(t, words[1]), args: words[at+1:], streams: words[0] == "converses",
			})
		case len(all) == 0:
		case words[0] == "stdout", words[0] == "steady", words[0] == "cmp" && words[1] == "stdout":
			all[len(all)-1].looks = true
		}
	}
	return slices.DeleteFunc(all, func(s story) bool { return len(s.args) == 0 })
}

// scriptWords splits a line as testscript does: a quoted part may contain blanks, and a doubled quote in it
// is one quote.
func scriptWords(line string) []string {
	var words []string
	word, begun, quoted := "", false, false
	for i := 0; i < len(line); i++ {
		c := line[i]
		switch {
		case c == '\'' && quoted && i+1 < len(line) && line[i+1] == '\'':
			word, i = word+"'", i+1
		case c == '\'':
			quoted, begun = !quoted, true
		case quoted || c != ' ' && c != '\t' && (c != '#' || begun):
			word, begun = word+string(c), true
		default:
			if begun {
				words = append(words, word)
			}
			if word, begun = "", false; c == '#' {
				return words
			}
		}
	}
	if begun {
		words = append(words, word)
	}
	return words
}

func atoi(t *testing.T, text string) int {
	t.Helper()
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatal(err)
	}
	return n
}
