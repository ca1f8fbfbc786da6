package operator

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

// failedLine is the result of a line that failed.
type failedLine struct {
	Error lineError `json:"error"`
}

type lineError struct {
	Code    engine.Code `json:"code"`
	Message string      `json:"message"`
}

// runLines is --stdin: it reads one JSON object per line and writes one JSON
// result per line, in order and each at once, so that a program at the other end
// may ask line by line. Blank lines are passed over.
//
// do returns the result of a line; an error without a result is written as
// {"error":{"code","message"}}, one beside a result only counts for the exit
// code, which is the highest of all lines.
func runLines[In any](ctx context.Context, s *shell, do func(context.Context, In) (any, error)) error {
	worst := exitDone
	lines := readLines(ctx, s.stdin)
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case line, ok := <-lines:
			if !ok {
				return said(worst)
			}
			if line.err != nil && !errors.Is(line.err, bufio.ErrTooLong) {
				return fmt.Errorf("read standard input: %w", line.err)
			}
			code, err := answerLine(ctx, s.stdout, line, do)
			if err != nil {
				return fmt.Errorf("write a result: %w", err)
			}
			worst = max(worst, code)
		}
	}
}

// answerLine writes the result of one line and returns its exit code.
func answerLine[In any](ctx context.Context, out io.Writer, line inputLine, do func(context.Context, In) (any, error)) (int, error) {
	result, err := runLine(ctx, line, do)
	if result == nil {
		result = failedLine{Error: lineError{Code: engine.CodeOf(err), Message: err.Error()}}
	}
	return exitCode(err), encodeJSON(out, result, "")
}

func runLine[In any](ctx context.Context, line inputLine, do func(context.Context, In) (any, error)) (any, error) {
	if line.err != nil {
		return nil, invalidLine(fmt.Errorf("the line has more than %d bytes", maxLine))
	}
	var in In
	if err := json.Unmarshal(line.text, &in); err != nil {
		return nil, invalidLine(fmt.Errorf("the line is no JSON object that is understood here: %w", err))
	}
	return do(ctx, in)
}

func invalidLine(err error) error {
	return &engine.Error{Code: engine.CodeInvalidEvent, Err: err, Hint: "write one object per line, as the help text shows"}
}

// inputLine is a line, or why there is none: bufio.ErrTooLong stands for one line.
type inputLine struct {
	text []byte
	err  error
}

// readLines reads beside its caller, so that a cancelled context ends the
// command although nothing comes in. The channel closes at the end of input.
func readLines(ctx context.Context, in io.Reader) <-chan inputLine {
	lines := make(chan inputLine)
	go func() {
		defer close(lines)
		text, err := document.Stream(in)
		if err != nil {
			text = failing{err}
		}
		reader := bufio.NewReaderSize(text, 64<<10)
		for {
			line := readLine(reader)
			end := errors.Is(line.err, io.EOF)
			if end {
				line.err = nil
			}
			if len(line.text) > 0 || line.err != nil {
				select {
				case lines <- line:
				case <-ctx.Done():
					return
				}
			}
			if end || line.err != nil && !errors.Is(line.err, bufio.ErrTooLong) {
				return
			}
		}
	}()
	return lines
}

// failing is a reader whose input cannot be read.
type failing struct{ error }

func (f failing) Read([]byte) (int, error) { return 0, f.error }

// readLine reads to the next line end; a line beyond maxLine is thrown away.
func readLine(r *bufio.Reader) inputLine {
	var line []byte
	for {
		part, err := r.ReadSlice('\n')
		if len(line) <= maxLine {
			line = append(line, part...)
		}
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
		case len(line) > maxLine && (err == nil || errors.Is(err, io.EOF)):
			return inputLine{err: bufio.ErrTooLong}
		default:
			return inputLine{text: bytes.TrimSpace(line), err: err}
		}
	}
}
