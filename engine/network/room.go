package network

// Room counts the free blocks of a parent by prefix length. The blocks are disjoint.
type Room [33]int

// Addresses returns the number of free addresses.
func (r Room) Addresses() int64 {
	var n int64
	for size, blocks := range r {
		n += int64(blocks) << (32 - size)
	}
	return n
}

// Blocks returns how many blocks of a prefix length can still be taken.
func (r Room) Blocks(size int) int64 {
	var n int64
	for larger := 0; larger <= size; larger++ {
		n += int64(r[larger]) << (size - larger)
	}
	return n
}

// Addresses returns the number of addresses of a parent, free or not.
func (p Parent) Addresses() int64 {
	var n int64
	for _, c := range p.CIDRs {
		n += int64(1) << (32 - c.Bits())
	}
	return n
}
