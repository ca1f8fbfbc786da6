package main

import (
	"context"
	"net/http"
	"strings"
	"time"

	"github.com/hap-worker/hap-worker/integration/faulty"
)

// trouble disturbs the quiet tenants.
type trouble struct {
	name string
	// accounts is the number of accounts that the trouble needs; owners of them have a runtime each.
	accounts, owners int
	// fault is injected before the events of batch are published.
	fault func(context.Context, *fairSite) error
	batch func(*fairSite) ([]event, error)
}

const nameFlood = "flood"

func troubles() []trouble {
	refused := func(status int, hold time.Duration, which func(*http.Request) bool) func(context.Context, *fairSite) error {
		return func(_ context.Context, f *fairSite) error {
			f.kube.Choose(func(r *http.Request) faulty.Fault {
				if !which(r) {
					return faulty.Fault{}
				}
				return faulty.Fault{Status: status, CutBefore: hold > 0, Hold: hold}
			})
			return nil
		}
	}
	writes := func(r *http.Request) bool {
		return r.Method == http.MethodPatch && strings.Contains(r.URL.Path, "bindings/")
	}
	shoots := func(r *http.Request) bool {
		return r.Method == http.MethodGet && strings.HasSuffix(r.URL.Path, "/shoots") && r.URL.Query().Get("watch") == ""
	}
	claims := func(f *fairSite) ([]event, error) { return f.provisions("azure", stuck) }
	return []trouble{
		{name: nameFlood, batch: func(f *fairSite) ([]event, error) { return f.floodOf("flood", 0) }},
		{name: "writes refused", accounts: crowd, fault: refused(http.StatusServiceUnavailable, 0, writes), batch: claims},
		{name: "writes hang", accounts: crowd, fault: refused(0, time.Minute, writes), batch: claims},
		{name: "Shoots refused", accounts: stuck, owners: stuck, fault: refused(http.StatusServiceUnavailable, 0, shoots), batch: (*fairSite).departures},
		{name: "Shoots hang", accounts: stuck, owners: stuck, fault: refused(0, time.Minute, shoots), batch: (*fairSite).departures},
		{name: "a pool in Redis", accounts: crowd, fault: func(ctx context.Context, f *fairSite) error { return f.breakPool(ctx) }, batch: claims},
	}
}

func troubleNames() (names []string) {
	for _, t := range troubles() {
		names = append(names, t.name)
	}
	return names
}
