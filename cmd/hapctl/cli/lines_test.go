package cli

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/hap-worker/hap-worker/engine"
)

type asked struct {
	Name string `json:"name"`
}

type answered struct {
	Hello string `json:"hello"`
}

// greet returns a result, an error or both, depending on the name.
func greet(_ context.Context, in asked) (any, error) {
	switch in.Name {
	case "full":
		return nil, &engine.Error{Code: engine.CodePoolExhausted, Err: errors.New("no account -> wait")}
	case "late":
		return nil, context.DeadlineExceeded
	case "half":
		return answered{in.Name}, Said(ExitConflict)
	}
	return answered{in.Name}, nil
}

// TestLines: one result a line, in order; the exit code is the worst line's.
func TestLines(t *testing.T) {
	t.Parallel()
	long := `{"name":"` + strings.Repeat("x", maxLine) + `"}`
	for _, c := range []struct {
		name, in, out string
		exit          int
	}{
		{"nothing", "", "", 0},
		{"blank lines have no result", "\n \r\n", "", 0},
		{"one without a line end", `{"name":"a"}`, `{"hello":"a"}`, 0},
		{"in order", "{\"name\":\"a\"}\r\n{\"name\":\"b\"}\n", `{"hello":"a"} {"hello":"b"}`, 0},
		{"unknown fields are passed over", `{"name":"a","more":1}`, `{"hello":"a"}`, 0},
		{"a failure does not end it", `{"name":"full"}` + "\n" + `{"name":"b"}`,
			`{"error":{"code":"PoolExhausted","message":"no account -> wait"}} {"hello":"b"}`, 4},
		{"a result may count as one", `{"name":"half"}`, `{"hello":"half"}`, 5},
		{"the worst counts", `{"name":"late"}` + "\n" + `{"name":"half"}`,
			`{"error":{"code":"DeadlineExceeded","message":"context deadline exceeded"}} {"hello":"half"}`, 124},
		{"too long a line", long + "\n" + `{"name":"b"}`,
			`{"error":{"code":"InvalidEvent","message":"the line has more than 1048576 bytes; write one object per line, as the help text shows"}} {"hello":"b"}`, 1},
		{"too long a last line", long, `{"error":{"code":"InvalidEvent","message":"the line has more than 1048576 bytes; write one object per line, as the help text shows"}}`, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			var out bytes.Buffer
			err := RunLines(t.Context(), &Shell{Stdin: strings.NewReader(c.in), Stdout: Stream{&out}}, greet)
			got := strings.Join(strings.Fields(strings.ReplaceAll(out.String(), "\n", " ")), " ")
			if got != c.out || ExitCode(err) != c.exit {
				t.Fatalf("%s, exit code %d; want %s, %d", got, ExitCode(err), c.out, c.exit)
			}
		})
	}
}

// TestLinesThatAreNoObject: each such line gets an InvalidEvent.
func TestLinesThatAreNoObject(t *testing.T) {
	t.Parallel()
	for _, in := range []string{`x`, `null`, ` null `, `[]`, `"a"`, `1`, `{"name":1}`, `{"name":"a"`, `{"name":"a"} {}`} {
		var out bytes.Buffer
		err := RunLines(t.Context(), &Shell{Stdin: strings.NewReader(in), Stdout: Stream{&out}}, greet)
		if !strings.HasPrefix(out.String(), `{"error":{"code":"InvalidEvent",`) || ExitCode(err) != ExitFailure {
			t.Errorf("%s: %s, exit code %d", in, out.String(), ExitCode(err))
		}
	}
}

// TestLinesAreAnsweredOneByOne: the answer to a line is there before the next
// line has been written.
func TestLinesAreAnsweredOneByOne(t *testing.T) {
	t.Parallel()
	inRead, inWrite := io.Pipe()
	outRead, outWrite := io.Pipe()
	done := make(chan error, 1)
	go func() {
		err := RunLines(t.Context(), &Shell{Stdin: inRead, Stdout: Stream{outWrite}}, greet)
		done <- errors.Join(err, outWrite.Close())
	}()
	answers := bufio.NewReader(outRead)
	for _, name := range []string{"a", "b", "c"} {
		if _, err := io.WriteString(inWrite, `{"name":"`+name+"\"}\n"); err != nil {
			t.Fatal(err)
		}
		if got, err := answers.ReadString('\n'); got != `{"hello":"`+name+"\"}\n" {
			t.Fatalf("%q, %v", got, err)
		}
	}
	if err := errors.Join(inWrite.Close(), <-done); err != nil {
		t.Fatal(err)
	}
}

// TestLinesEndWithTheContext: RunLines returns when the context ends, even without input.
func TestLinesEndWithTheContext(t *testing.T) {
	t.Parallel()
	in, hold := io.Pipe()
	defer hold.Close()
	ctx, cancel := context.WithCancelCause(t.Context())
	enough := errors.New("enough")
	cancel(enough)
	if err := RunLines(ctx, &Shell{Stdin: in, Stdout: Stream{io.Discard}}, greet); !errors.Is(err, enough) {
		t.Fatalf("ended with %v", err)
	}
}

// TestLinesEndWithAReadError: such an error ends the command instead of failing one line.
func TestLinesEndWithAReadError(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	in := io.MultiReader(strings.NewReader("{\"name\":\"a\"}\n"), errReader{broken})
	var out bytes.Buffer
	if err := RunLines(t.Context(), &Shell{Stdin: in, Stdout: Stream{&out}}, greet); !errors.Is(err, broken) || out.String() != "{\"hello\":\"a\"}\n" {
		t.Fatalf("%q, ended with %v", out.String(), err)
	}
}

type errReader struct{ err error }

func (r errReader) Read([]byte) (int, error) { return 0, r.err }
