package page

import (
	"slices"
	"time"

	"github.com/hap-worker/hap-worker/engine/natural"
	"github.com/hap-worker/hap-worker/worker/bulkhead"
	"github.com/hap-worker/hap-worker/worker/observe"
)

// poolsOfCircuit is the number of pools that are named for a dependency.
const poolsOfCircuit = 5

// dependencies has the name of each dependency on the page, and what stops while one of its circuit breakers is
// open. The dependency whose failure stops most comes first.
var dependencies = []struct {
	of          bulkhead.Dependency
	what, stops string
}{
	{bulkhead.Records, "Records in Redis", "requests for these pools are not decided and come again; others go on."},
	{bulkhead.Labels, "Labels of bindings in Gardener", "requests that need a new account of these pools wait; others go on."},
	{bulkhead.Bindings, "Bindings in Gardener", "requests whose claim has to read a binding of these pools wait; others go on."},
	{bulkhead.Shoots, "Shoots in Gardener", "accounts that are left drain, and none is marked dirty; requests go on."},
}

// circuit is a dependency of which this worker has open circuit breakers.
type circuit struct {
	What  string
	Pools []string // the first poolsOfCircuit by name; none if all pools share one circuit
	More  int      // pools that are not named
	Since time.Time
	Err   string // the latest failure of the circuit that has been open for longest
	Stops string
}

// circuitsOf returns the dependencies that have open circuits, in the order of dependencies.
func circuitsOf(from *Sources) []circuit {
	if from.Circuits == nil {
		return nil
	}
	all := from.Circuits()
	var shown []circuit
	for _, d := range dependencies {
		c := circuit{What: d.what, Stops: d.stops, Err: string(unread)}
		var oldest *observe.Circuit
		for i := range all {
			o := &all[i]
			if !o.Open || o.Dependency != string(d.of) {
				continue
			}
			if oldest == nil || o.Since.Before(oldest.Since) {
				oldest = o
			}
			if o.Pool != "" {
				c.Pools = append(c.Pools, shortened(o.Pool))
			}
		}
		if oldest == nil {
			continue
		}
		if c.Since = oldest.Since; oldest.Err != nil {
			c.Err = shortened(oldest.Err.Error())
		}
		slices.SortFunc(c.Pools, natural.Compare)
		c.More = max(0, len(c.Pools)-poolsOfCircuit)
		c.Pools = c.Pools[:len(c.Pools)-c.More]
		shown = append(shown, c)
	}
	return shown
}
