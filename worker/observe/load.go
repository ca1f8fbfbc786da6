package observe

// Load is what a worker has in hand.
type Load struct {
	Queued     []Queued
	Flows      int   // tenants and classes with queued events
	Slow       int   // events in work that take no place any more
	HandedBack int64 // events that the full queue gave back, since the worker began
}

// Queued is how many events of a class are taken and not begun.
type Queued struct {
	Class  string
	Events int
}
