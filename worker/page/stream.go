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
	// writeWithin is how long a viewer may take to accept an update. A slower one is disconnected.
	writeWithin = 10 * time.Second
	// streamAge is the maximal age of a stream; the browser then opens another. Without it, a client that
	// never reads is found by writeWithin only once the buffers on the way are full, which takes hours when
	// little changes.
	streamAge = 5 * time.Minute
	// comesAgain tells the browser how long to wait before it reconnects.
	comesAgain = "retry: 1000\n\n"
)

// limits are the time limits of a viewer: for accepting an update, and for a whole stream.
type limits struct{ write, stream time.Duration }

// live serves a view at one URL: as a page to browsers, and as a stream of changed parts to the page's
// script.
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

// stream sends changed parts at an interval until tell returns false, the viewer disconnects, its place goes to
// another viewer, the stream gets too old or the page ends. The browser then reconnects.
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

// tell sends one update, and reports whether the stream may go on. It returns false if the viewer's login is no
// longer valid, if there is nothing to show, or if the update cannot be sent.
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

// update is the data of one server-sent event.
type update struct {
	ID   string `json:"id,omitempty"`
	HTML string `json:"html,omitempty"`
	Time string `json:"time,omitempty"`
}

// send writes the parts that have changed since they were last sent, then the time.
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
