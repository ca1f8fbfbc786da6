package page

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"
)

// writeWithin is how long a viewer may take to accept an update: one who does not
// is let go of.
const writeWithin = 10 * time.Second

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

func (p *Page) stream(w http.ResponseWriter, r *http.Request, build func(*http.Request) (view, int)) {
	if !p.streams.take() {
		w.Header().Set("Retry-After", "30")
		http.Error(w, "too many pages update themselves already; reload to see the state", http.StatusServiceUnavailable)
		return
	}
	defer p.streams.give()
	control := http.NewResponseController(w)
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("X-Accel-Buffering", "no")
	sent := map[string]string{}
	tick := time.NewTicker(p.opts.Every)
	defer tick.Stop()
	for {
		v, status := build(r)
		if status != http.StatusOK {
			return // the browser comes again, and is told
		}
		_ = control.SetWriteDeadline(time.Now().Add(writeWithin))
		if err := p.send(w, v, sent); err != nil {
			return
		}
		if err := control.Flush(); err != nil {
			return
		}
		select {
		case <-r.Context().Done():
			return
		case <-p.ctx.Done():
			return
		case <-tick.C:
		}
	}
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
