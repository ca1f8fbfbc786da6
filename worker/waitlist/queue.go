package waitlist

// queue is entries as they came. Those that are gone are left out from time to time, so that
// to come and to go cost the same whatever its length is.
type queue struct {
	entries []*Entry
	lost    int // of the entries
}

func (q *queue) add(e *Entry) { q.entries = append(q.entries, e) }

func (q *queue) empty() bool { return q.lost == len(q.entries) }

// lose counts an entry that is gone, and reports whether places have changed.
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

// after is the entry that came after another, nil for none. Entries have ascending sequences.
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

// dues is a heap of entries, the one that is due first at its top.
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
