package network

// Room is how many free blocks of each prefix length a parent consists of: none of
// them lies in another.
type Room [33]int

// Addresses is how many addresses are free.
func (r Room) Addresses() int64 {
	var n int64
	for size, blocks := range r {
		n += int64(blocks) << (32 - size)
	}
	return n
}

// Blocks is how many blocks of a size can still be taken.
func (r Room) Blocks(size int) int64 {
	var n int64
	for larger := 0; larger <= size; larger++ {
		n += int64(r[larger]) << (size - larger)
	}
	return n
}

// Addresses is how many addresses a parent has.
func (p Parent) Addresses() int64 {
	var n int64
	for _, c := range p.CIDRs {
		n += int64(1) << (32 - c.Bits())
	}
	return n
}
