package cli

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/hap-worker/hap-worker/engine"
	"github.com/hap-worker/hap-worker/engine/document"
)

// maxLine is the longest line that --stdin takes, in bytes.
const maxLine = 1 << 20

// FailedLine is the result of a line that failed.
type FailedLine struct {
	Error LineError `json:"error"`
}

// LineError is the error of a line, with its code.
type LineError struct {
	Code    engine.Code `json:"code"`
	Message string      `json:"message"`
}

// RunLines implements --stdin: it reads one JSON object per line and writes one JSON result per line, in
// order and each at once, so that a program at the other end can wait for each answer. It skips blank lines.
//
// do returns the result of a line. An error without a result is written as {"error":{"code","message"}}. An
// error with a result only sets the exit code. At the end of the input, RunLines returns the highest exit
// code of all lines, as Said does.
func RunLines[In any](ctx context.Context, s *Shell, do func(context.Context, In) (any, error)) error {
	worst := ExitDone
	lines := ReadLines(ctx, s.Stdin)
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case line, ok := <-lines:
			if !ok {
				return Said(worst)
			}
			if line.Err != nil && !errors.Is(line.Err, bufio.ErrTooLong) {
				return fmt.Errorf("read standard input: %w", line.Err)
			}
			code, err := answerLine(ctx, s.Stdout, line, do)
			if err != nil {
				return fmt.Errorf("write a result: %w", err)
			}
			worst = max(worst, code)
		}
	}
}

// answerLine writes the result of one line and returns its exit code.
func answerLine[In any](ctx context.Context, out io.Writer, line InputLine, do func(context.Context, In) (any, error)) (int, error) {
	result, err := RunLine(ctx, line, do)
	if result == nil {
		result = FailedLine{Error: LineError{Code: engine.CodeOf(err), Message: err.Error()}}
	}
	return ExitCode(err), EncodeJSON(out, result, "")
}

// RunLine decodes a line and returns the result of do. A line that does not decode, is null, or was not read is an
// error.
func RunLine[In any](ctx context.Context, line InputLine, do func(context.Context, In) (any, error)) (any, error) {
	switch {
	case errors.Is(line.Err, bufio.ErrTooLong):
		return nil, InvalidLine(fmt.Errorf("the line has more than %d bytes", maxLine))
	case line.Err != nil:
		return nil, fmt.Errorf("read the input: %w", line.Err)
	}
	if string(bytes.TrimSpace(line.text)) == "null" { // it would be read as an empty object or string
		return nil, InvalidLine(errors.New("the line is null"))
	}
	var in In
	if err := json.Unmarshal(line.text, &in); err != nil {
		return nil, InvalidLine(fmt.Errorf("the line is no JSON object of the expected form: %w", err))
	}
	return do(ctx, in)
}

// InvalidLine returns the error for a line that cannot be read.
func InvalidLine(err error) error {
	return &engine.Error{Code: engine.CodeInvalidEvent, Err: err, Hint: "write one object per line, as the help text shows"}
}

// InputLine is a line, or an error: bufio.ErrTooLong concerns one line, any other error ends the input.
type InputLine struct {
	text []byte
	Err  error
}

// ReadLines reads in a goroutine, so that a cancelled context ends the command even if no input comes. It leaves
// blank lines out. It closes the channel at the end of the input, and after an error that ends the input.
func ReadLines(ctx context.Context, in io.Reader) <-chan InputLine {
	lines := make(chan InputLine)
	go func() {
		defer close(lines)
		text, err := document.Stream(in)
		if err != nil {
			text = failing{err}
		}
		reader := bufio.NewReaderSize(text, 64<<10)
		for {
			line := readLine(reader)
			end := errors.Is(line.Err, io.EOF)
			if end {
				line.Err = nil
			}
			if len(line.text) > 0 || line.Err != nil {
				select {
				case lines <- line:
				case <-ctx.Done():
					return
				}
			}
			if end || line.Err != nil && !errors.Is(line.Err, bufio.ErrTooLong) {
				return
			}
		}
	}()
	return lines
}

// failing is a reader whose input cannot be read.
type failing struct{ error }

func (f failing) Read([]byte) (int, error) { return 0, f.error }

// readLine reads to the next line end. For a line longer than maxLine, Err is bufio.ErrTooLong and there is
// no text. At the end of the input, Err is io.EOF, perhaps with the text of the last line.
func readLine(r *bufio.Reader) InputLine {
	var line []byte
	for {
		part, err := r.ReadSlice('\n')
		if len(line) <= maxLine {
			line = append(line, part...)
		}
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
		case len(line) > maxLine && (err == nil || errors.Is(err, io.EOF)):
			return InputLine{Err: bufio.ErrTooLong}
		default:
			return InputLine{text: bytes.TrimSpace(line), Err: err}
		}
	}
}

// LineFault explains the error of decoding a line of JSON.
func LineFault(err error) error {
	var wrong *json.UnmarshalTypeError
	switch {
	case !errors.As(err, &wrong):
		return fmt.Errorf("the line is no JSON object of the expected form: %w", err)
	case wrong.Field == "":
		return fmt.Errorf("the line is no JSON object but a JSON %s", wrong.Value)
	default:
		return fmt.Errorf("%s must not be a JSON %s", wrong.Field, wrong.Value)
	}
}
