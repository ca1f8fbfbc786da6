package integration_test

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"os"
	"syscall"
	"testing"

	"github.com/hap-worker/hap-worker/integration/stack"
)

// TestWorkersStart starts two workers on a configuration of the caller's, ends
// them in every way and starts them again at their addresses.
func TestWorkersStart(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	s, err := stack.Start(ctx, stack.Options{Gardener: usualGardener, Workers: 2, Config: []byte("worker: {concurrency: 3}"), Talk: t.Output()})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := s.Stop(); err != nil {
			t.Error(err)
		}
	}()
	config, err := os.ReadFile(s.Summary().Config)
	if err != nil || !bytes.Contains(config, []byte("concurrency: 3")) || !bytes.Contains(config, []byte(s.NATS.URL())) {
		t.Errorf("configuration of the workers, %v:\n%s", err, config)
	}
	urls := s.Summary().Workers
	if len(urls) != 2 || urls[0] == urls[1] {
		t.Fatalf("workers: %v", urls)
	}
	for _, url := range urls {
		if err := get(ctx, url+"/readyz"); err != nil {
			t.Error(err)
		}
	}
	first, second := s.Workers[0], s.Workers[1]
	if err := first.Stop(); err != nil {
		t.Error(err)
	}
	second.Kill()
	for _, url := range urls {
		if err := get(ctx, url+"/readyz"); err == nil {
			t.Errorf("%s answers after its end", url)
		}
	}
	for _, w := range s.Workers {
		if err := w.Start(ctx); err != nil {
			t.Fatal(err)
		}
		if err := get(ctx, w.URL()+"/readyz"); err != nil {
			t.Error(err)
		}
	}
	if err := first.Signal(syscall.SIGSTOP); err != nil {
		t.Error(err)
	}
	if err := first.Signal(syscall.SIGCONT); err != nil {
		t.Error(err)
	}
	if err := get(ctx, first.URL()+"/healthz"); err != nil {
		t.Errorf("after a pause: %v", err)
	}
}

// get asks the URL; nil is 200.
func get(ctx context.Context, url string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return err
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	if err := resp.Body.Close(); err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", url, resp.Status)
	}
	return nil
}
