package waitlist

// queue is a list of entries, oldest first. Removed entries stay in it until it is compacted, so that adding
// and removing take amortized constant time.
type queue struct {
	entries []*Entry
	lost    int // removed ones among entries
}

func (q *queue) add(e *Entry) { q.entries = append(q.entries, e) }

func (q *queue) empty() bool { return q.lost == len(q.entries) }

// lose counts a removed entry, and reports whether it has compacted the queue, which changes the indexes.
func (q *queue) lose() bool {
	if q.lost++; q.lost < 16 || 2*q.lost < len(q.entries) {
		return false
	}
	kept := make([]*Entry, 0, len(q.entries)-q.lost)
	for _, e := range q.entries {
		if !e.gone {
			kept = append(kept, e)
		}
	}
	q.entries, q.lost = kept, 0
	return true
}

func (q *queue) first() *Entry {
	for len(q.entries) > 0 && q.entries[0].gone {
		q.entries, q.lost = q.entries[1:], q.lost-1
	}
	if len(q.entries) == 0 {
		return nil
	}
	return q.entries[0]
}

// after returns the entry after e, or nil. The sequences of entries ascend.
func (q *queue) after(e *Entry) *Entry {
	low, high := 0, len(q.entries)
	for low < high {
		if middle := (low + high) / 2; q.entries[middle].Sequence <= e.Sequence {
			low = middle + 1
		} else {
			high = middle
		}
	}
	for _, next := range q.entries[low:] {
		if !next.gone {
			return next
		}
	}
	return nil
}

// dues is a heap of entries; its top is due first.
type dues []*Entry

func (d dues) Len() int { return len(d) }
func (d dues) Less(i, j int) bool {
	if !d[i].due.Equal(d[j].due) {
		return d[i].due.Before(d[j].due)
	}
	return d[i].Sequence < d[j].Sequence
}

func (d dues) Swap(i, j int) {
	d[i], d[j] = d[j], d[i]
	d[i].at, d[j].at = i, j
}

func (d *dues) Push(x any) {
	e := x.(*Entry) //nolint:forcetypeassert // there is nothing else in it
	e.at = len(*d)
	*d = append(*d, e)
}

func (d *dues) Pop() any {
	last := (*d)[len(*d)-1]
	*d = (*d)[:len(*d)-1]
	return last
}
