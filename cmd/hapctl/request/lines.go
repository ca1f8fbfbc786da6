package request

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/google/uuid"

	"github.com/hap-worker/hap-worker/cmd/hapctl/cli"
	"github.com/hap-worker/hap-worker/engine"
	"github.com/hap-worker/hap-worker/events"
)

// inFlight is how many further requests of a file may be in flight while the next result is awaited.
const inFlight = 64

// decodeLine decodes a line's JSON object: the data of an event, with the request's id.
func decodeLine(t events.Type, text []byte) (events.Event, error) {
	var request identified
	e, data, _ := events.NewEvent(t)
	err := json.Unmarshal(text, &request)
	if err == nil {
		err = json.Unmarshal(text, data)
	}
	if err != nil {
		return events.Event{}, cli.InvalidLine(cli.LineFault(err))
	}
	e.ID = request.ID
	return e, nil
}

// identified is the part of a line that is not the event's data.
type identified struct {
	ID string `json:"id"`
}

// turnResult is the result of a line.
type turnResult struct {
	result any
	code   int
}

// runFile publishes the request of every line, several at once, and writes the results in the order of the
// lines, each as soon as it and all earlier ones are there. As with cli.RunLines, a failed line has an error as
// its result, and the exit code is the highest of all lines.
func (r *Requester) runFile(ctx context.Context, in io.Reader, t events.Type) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	turns := make(chan chan turnResult, inFlight)
	read := make(chan error, 1)
	go func() {
		defer close(turns)
		read <- r.begin(ctx, in, t, turns)
	}()
	worst := cli.ExitDone
	for turn := range turns {
		a := <-turn
		if err := cli.EncodeJSON(r.Shell.Stdout, a.result, ""); err != nil {
			return fmt.Errorf("write a result: %w", err)
		}
		worst = max(worst, a.code)
	}
	if err := <-read; err != nil {
		return err
	}
	return cli.Said(worst)
}

// begin starts the request of every line, and sends the channel of its result to turns. The capacity of turns
// bounds how many requests are in flight.
func (r *Requester) begin(ctx context.Context, in io.Reader, t events.Type, turns chan<- chan turnResult) error {
	lines := cli.ReadLines(ctx, in)
	for {
		var line cli.InputLine
		var more bool
		select {
		case line, more = <-lines:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		if !more {
			return nil
		}
		if line.Err != nil && !errors.Is(line.Err, bufio.ErrTooLong) {
			return fmt.Errorf("read the requests: %w", line.Err)
		}
		turn := make(chan turnResult, 1)
		select {
		case turns <- turn:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		go func() { turn <- r.line(ctx, line, t) }()
	}
}

// line returns the result and the exit code of one line.
func (r *Requester) line(ctx context.Context, line cli.InputLine, t events.Type) turnResult {
	result, err := cli.RunLine(ctx, line, func(ctx context.Context, text json.RawMessage) (any, error) {
		e, err := decodeLine(t, text)
		if err != nil {
			return nil, err
		}
		given := e.ID != ""
		if !given {
			e.ID = uuid.NewString()
		}
		v, err := r.one(ctx, e, given)
		if v == nil {
			return nil, err
		}
		return v, err
	})
	if result == nil {
		result = cli.FailedLine{Error: cli.LineError{Code: engine.CodeOf(err), Message: err.Error()}}
	}
	return turnResult{result: result, code: cli.ExitCode(err)}
}
