package history

import (
	"cmp"
	"maps"
	"slices"
)

const (
	// longest is the number of replies to which the trail of a name is cut when it has twice as many.
	longest = 128
	// most bounds the number of names. The sequences of that many names take at most some 100 MB.
	most = 50_000
)

// trails are the sequences of the replies that name an account, or a tenant, by that name.
type trails map[string]*trail

// trail has the sequences of the last replies, oldest first.
type trail struct {
	sequences []uint64
	lost      int // number of older ones that were dropped; after halve has dropped the trail, a new one begins with 0
}

func (t trails) add(name string, sequence uint64) {
	if name == "" {
		return
	}
	of := t[name]
	if of == nil {
		if len(t) >= most {
			t.halve()
		}
		of = &trail{}
		t[name] = of
	}
	if of.sequences = append(of.sequences, sequence); len(of.sequences) == 2*longest {
		of.lost += longest
		of.sequences = append(of.sequences[:0], of.sequences[longest:]...)
	}
}

// halve drops the half of the names whose last reply is oldest.
func (t trails) halve() {
	names := slices.SortedFunc(maps.Keys(t), func(a, b string) int { return cmp.Compare(t[a].end(), t[b].end()) })
	for _, name := range names[:len(names)/2] {
		delete(t, name)
	}
}

func (t *trail) end() uint64 { return t.sequences[len(t.sequences)-1] }

// of returns the last n sequences of a name, newest first, and the number of older ones.
func (t trails) of(name string, n int) (sequences []uint64, more int) {
	of := t[name]
	if of == nil {
		return nil, 0
	}
	begin := max(0, len(of.sequences)-n)
	sequences = slices.Clone(of.sequences[begin:])
	slices.Reverse(sequences)
	return sequences, of.lost + begin
}
