package page

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/hap-worker/hap-worker/worker/page/access"
)

const (
	// writeWithin is how long a viewer may take to accept an update: one who does not
	// is let go of.
	writeWithin = 10 * time.Second
	// streamAge is how long a stream goes on; the browser opens the next one. A client that never
	// reads is found by writeWithin only once the buffers on the way are full, which takes
	// hours where little changes.
	streamAge = 5 * time.Minute
	// comesAgain tells the browser how long to wait before it opens the next one.
	comesAgain = "retry: 1000\n\n"
)

// limits are how long a viewer may take: to accept an update, and with a stream in all.
type limits struct{ write, stream time.Duration }

// live serves a view: as a page, and to its script as a stream of the parts that
// changed, at the same address.
func (p *Page) live(build func(*http.Request) (view, int)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.Header.Get("Accept"), "text/event-stream") {
			p.stream(w, r, build)
			return
		}
		v, status := build(r)
		p.write(w, status, v)
	})
}

// stream sends what changed, until the viewer leaves, its login is over, its place is another
// viewer's or the stream has become old. The browser comes again then, and is told why not.
func (p *Page) stream(w http.ResponseWriter, r *http.Request, build func(*http.Request) (view, int)) {
	place := p.streams.enter(access.Viewer(r))
	if place == nil {
		w.Header().Set("Retry-After", "30")
		http.Error(w, "too many pages update themselves already; reload to see the state", http.StatusServiceUnavailable)
		return
	}
	defer p.streams.leave(place)
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("X-Accel-Buffering", "no")
	if _, err := io.WriteString(w, comesAgain); err != nil {
		return
	}
	sent := map[string]string{}
	tick, old := time.NewTicker(p.opts.Every), time.NewTimer(p.limits.stream)
	defer tick.Stop()
	defer old.Stop()
	for p.tell(w, r, build, sent) {
		select {
		case <-r.Context().Done():
			return
		case <-p.ctx.Done():
			return
		case <-place.lost:
			return
		case <-old.C:
			return
		case <-tick.C:
		}
	}
}

// tell sends one update. It reports whether there may be a next one.
func (p *Page) tell(w http.ResponseWriter, r *http.Request, build func(*http.Request) (view, int), sent map[string]string) bool {
	if !access.Stands(r) {
		return false
	}
	v, status := build(r)
	if status != http.StatusOK {
		return false
	}
	control := http.NewResponseController(w)
	_ = control.SetWriteDeadline(time.Now().Add(p.limits.write))
	return p.send(w, v, sent) == nil && control.Flush() == nil
}

// update is sent to the script.
type update struct {
	ID   string `json:"id,omitempty"`
	HTML string `json:"html,omitempty"`
	Time string `json:"time,omitempty"`
}

// send writes the parts that are not as they were sent last, then the time.
func (p *Page) send(w http.ResponseWriter, v view, sent map[string]string) error {
	for _, name := range v.Live {
		html, err := p.part(name, v.Data)
		if err != nil {
			return err
		}
		if last, known := sent[name]; known && last == html {
			continue
		}
		sent[name] = html
		if err := event(w, "part", update{ID: name, HTML: html}); err != nil {
			return err
		}
	}
	return event(w, "state", update{Time: v.Taken.UTC().Format("15:04:05")})
}

func event(w http.ResponseWriter, name string, u update) error {
	data, err := json.Marshal(u)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(w, "event: %s\ndata: %s\n\n", name, data)
	return err
}
