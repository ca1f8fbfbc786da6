package page

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/hap-worker/hap-worker/events"
	"github.com/hap-worker/hap-worker/events/streams"
	"github.com/hap-worker/hap-worker/ledger/dead"
)

const (
	// newestSearched is the number of messages of a stream among which a search looks. So many dead letters of
	// the largest size, 320 KiB, take 64 MB.
	newestSearched = 200
	// newestWithin is the time limit for reading them.
	newestWithin = time.Second
)

// newest caches the newest messages of a stream. A search has to read them, since their subjects do not have all
// the names that it looks for. Searches share a reading. The pause until the next is as long as that of cache.
type newest struct {
	mu     sync.Mutex
	rest   time.Time // when the pause after the last reading ends
	hits   []hit     // newest first
	extent streams.Extent
	err    error
}

func (n *newest) get(p *Page, read func(context.Context) ([]hit, streams.Extent, error)) ([]hit, streams.Extent, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	begun := p.now()
	if begun.Before(n.rest) {
		return n.hits, n.extent, n.err
	}
	ctx, cancel := context.WithTimeout(p.ctx, newestWithin) // not the viewer's: others get the same
	defer cancel()
	n.hits, n.extent, n.err = read(ctx)
	slices.Reverse(n.hits)
	ended := p.now()
	n.rest = ended.Add(max(atMostEvery, restFor*ended.Sub(begun)))
	return n.hits, n.extent, n.err
}

// about reports whether name is the hit's request, runtime, tenant or binding.
func (h hit) about(name string) bool {
	return name == h.Name || name == h.Runtime || name == h.Tenant || name == h.Binding
}

// unanswered finds the dead letters and the unsettled events that name f.Query.
func (p *Page) unanswered(f *found, from *Sources) (faults []error) {
	for _, s := range []struct {
		kind, stream string
		newest       *newest
		read         func(context.Context) ([]hit, streams.Extent, error)
	}{
		{"Not settled", events.StreamEvents, &p.queued, from.queued}, {"Dead letters", events.StreamDead, &p.letters, from.letters},
	} {
		all, extent, err := s.newest.get(p, s.read)
		if err != nil {
			faults = append(faults, fmt.Errorf("searching %s: %w", from.Subjects.Stream(s.stream), err))
		}
		if extent.Bounded {
			f.Bounds = append(f.Bounds, fmt.Sprintf("Of %s the newest %s only are searched, back to %s: hapctl explain --newest reads more.",
				from.Subjects.Stream(s.stream), many(extent.Read, "message"), extent.From.UTC().Format("2006-01-02 15:04:05")))
		}
		f.put(s.kind, slices.DeleteFunc(slices.Clone(all), func(h hit) bool { return !h.about(f.Query) }))
	}
	return faults
}

// hitOf returns a hit without a page for an event. It shortens the names, which come from outside.
func hitOf(e events.Event, tenant, note string) hit {
	return hit{
		Name: shortened(cmp.Or(e.ID, string(unread))), Runtime: shortened(e.RuntimeID), Tenant: shortened(tenant), Binding: shortened(e.Binding),
		Note: shortened(note), Exact: true,
	}
}

func (s *Sources) letters(ctx context.Context) (hits []hit, extent streams.Extent, err error) {
	if s.Letters == nil {
		return nil, extent, nil
	}
	extent, err = s.Letters(ctx, time.Time{}, newestSearched, func(l dead.Letter) error {
		hits = append(hits, hitOf(l.Event, l.Tenant(), fmt.Sprintf("since %s: %s; hapctl dead show %d", l.StoredAt.Format("2006-01-02 15:04:05"), l.Code, l.Number)))
		return nil
	})
	return hits, extent, err
}

func (s *Sources) queued(ctx context.Context) (hits []hit, extent streams.Extent, err error) {
	if s.Queued == nil {
		return nil, extent, nil
	}
	all, extent, err := s.Queued(ctx, newestSearched)
	for i := range all {
		e := &all[i]
		hits = append(hits, hitOf(e.Event, e.Tenant(), fmt.Sprintf("%s, published %s: %s", cmp.Or(string(e.Type), events.UnknownType), e.Published.Format("2006-01-02 15:04:05"), e.State())))
	}
	return hits, extent, err
}
