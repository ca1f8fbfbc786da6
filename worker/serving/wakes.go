package serving

import "sync"

// place is a tenant's requests for a pool.
type place struct{ pool, tenant string }

// woken says which of the requests that wait may be served now.
type woken struct {
	look    bool            // at some of all, in turn: what was missed is found so
	all     bool            // the first of each tenant
	network bool            // those that wait for network blocks
	pools   map[string]bool // whose next ones may find an unclaimed account
	places  []place         // in the order in which they were woken
	known   map[place]bool  // what is in places
}

// add joins two.
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

// Wakes collects what was woken until a round takes it.
type Wakes struct {
	mu     sync.Mutex
	woken  woken
	signal chan struct{} // has room for one
}

// NewWakes returns wakes without any.
func NewWakes() *Wakes { return &Wakes{signal: make(chan struct{}, 1)} }

// Pending reports whether something was woken since it last did.
func (w *Wakes) Pending() bool {
	select {
	case <-w.signal:
		return true
	default:
		return false
	}
}

// add joins what is woken. It does not wait.
func (w *Wakes) add(o woken) {
	w.keep(o)
	select {
	case w.signal <- struct{}{}:
	default:
	}
}

// keep is add without a signal: the next round takes it, whenever that begins.
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

// Wake says that anything may have changed, such as the rules: each tenant's first request
// is looked at. It does not wait.
func (w *Wakes) Wake() { w.add(woken{all: true, network: true}) }

// Look has the next request of each pool looked at, and some of the others in turn: what no
// other wake told of is found so. It does not wait.
func (w *Wakes) Look() { w.add(woken{look: true}) }

// WakePool says that a pool may have an account that is not claimed. It does not wait.
func (w *Wakes) WakePool(pool string) {
	w.add(woken{pools: map[string]bool{pool: true}})
}

// WakeTenant says that a tenant may find something in a pool, its own account among
// that. It does not wait.
func (w *Wakes) WakeTenant(pool, tenant string) {
	one := woken{pools: map[string]bool{pool: true}}
	if tenant != "" {
		one.place(place{pool, tenant})
	}
	w.add(one)
}

// WakeNetwork says that network blocks were freed. It does not wait.
func (w *Wakes) WakeNetwork() { w.add(woken{network: true}) }
