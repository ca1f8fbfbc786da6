package daemon

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"go.opentelemetry.io/otel"

	"github.com/hap-worker/hap-worker/counters/connection"
)

// lines is a log that several goroutines write.
type lines struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *lines) all() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Split(strings.TrimSpace(l.text.String()), "\n")
}

// TestLibrariesLogInTheProcessFormat: what Redis' and OpenTelemetry's libraries log by themselves is in the format of
// all other lines, and a collector that stays away is told once.
func TestLibrariesLogInTheProcessFormat(t *testing.T) {
	var log lines
	logLibraries(slog.New(slog.NewJSONHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug})))
	client, err := connection.Options{URLs: []string{"redis://127.0.0.1:1"}, SentinelMaster: "accounts"}.Client()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	asked, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if err := client.Ping(asked).Err(); err == nil {
		t.Fatal("there is no sentinel, and it answers")
	}
	for range 3 {
		otel.Handle(errors.New("no collector"))
	}
	told := map[string]int{}
	for _, line := range log.all() {
		var read struct {
			Message string `json:"msg"`
			Level   string `json:"level"`
		}
		if err := json.Unmarshal([]byte(line), &read); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		told[read.Level+" "+read.Message]++
	}
	if told["WARN telemetry failed"] != 1 || told["DEBUG Redis library"] == 0 {
		t.Errorf("logged %v", told)
	}
}
