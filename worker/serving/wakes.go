package serving

import "sync"

// place identifies the requests of one tenant for one pool.
type place struct{ pool, tenant string }

// woken is the set of waiting requests that may be served now.
type woken struct {
	look    bool            // the heads of all pools, and some other requests in turn: their wake may have been missed
	all     bool            // the first request of each tenant
	network bool            // requests that wait for network blocks
	pools   map[string]bool // pools whose heads may find an unclaimed account
	places  []place         // tenants, in the order in which they were woken
	known   map[place]bool  // the set of places
}

// add adds all of o.
func (w *woken) add(o woken) {
	w.look, w.all, w.network = w.look || o.look, w.all || o.all, w.network || o.network
	for pool := range o.pools {
		w.pool(pool)
	}
	for _, p := range o.places {
		w.place(p)
	}
}

func (w *woken) pool(pool string) {
	if w.pools == nil {
		w.pools = map[string]bool{}
	}
	w.pools[pool] = true
}

func (w *woken) place(p place) {
	if w.known[p] {
		return
	}
	if w.known == nil {
		w.known = map[place]bool{}
	}
	w.known[p] = true
	w.places = append(w.places, p)
}

// Wakes collects wakes until the next round. It is safe for concurrent use; no method blocks.
type Wakes struct {
	mu     sync.Mutex
	woken  woken
	signal chan struct{} // of capacity one
}

// NewWakes returns an empty set of wakes.
func NewWakes() *Wakes { return &Wakes{signal: make(chan struct{}, 1)} }

// Pending reports whether something was woken since the last call, and resets that.
func (w *Wakes) Pending() bool {
	select {
	case <-w.signal:
		return true
	default:
		return false
	}
}

// add adds wakes and signals them.
func (w *Wakes) add(o woken) {
	w.keep(o)
	select {
	case w.signal <- struct{}{}:
	default:
	}
}

// keep adds wakes without a signal: they wait for the next round.
func (w *Wakes) keep(o woken) {
	w.mu.Lock()
	w.woken.add(o)
	w.mu.Unlock()
}

func (w *Wakes) take() woken {
	w.mu.Lock()
	defer w.mu.Unlock()
	taken := w.woken
	w.woken = woken{}
	return taken
}

// Wake reports that anything may have changed, such as the rules. It wakes each tenant's first request, and
// all that wait for network blocks.
func (w *Wakes) Wake() { w.add(woken{all: true, network: true}) }

// Look wakes the heads of each pool and, in turn, some of the other requests. It repairs missed wakes.
func (w *Wakes) Look() { w.add(woken{look: true}) }

// WakePool reports that a pool may have an unclaimed account.
func (w *Wakes) WakePool(pool string) {
	w.add(woken{pools: map[string]bool{pool: true}})
}

// WakeTenant reports that a pool may have an account for a tenant: an unclaimed one, or room on the tenant's.
func (w *Wakes) WakeTenant(pool, tenant string) {
	one := woken{pools: map[string]bool{pool: true}}
	if tenant != "" {
		one.place(place{pool, tenant})
	}
	w.add(one)
}

// WakeNetwork reports that network blocks became free.
func (w *Wakes) WakeNetwork() { w.add(woken{network: true}) }
