package stack

import (
	"errors"
	"math/rand/v2"
	"net"
	"strconv"
	"sync"
)

// handedOut are the ports that FreePort returned in this process. Between its return
// and the listener of a process that starts, the port is free for a second caller.
var handedOut = struct {
	sync.Mutex
	ports map[int]bool
}{ports: map[int]bool{}}

// FreePort returns a port of the loopback address that a process can be told to listen
// on. It is none of those that the kernel hands out for port 0: one of them
// may be taken by another process before the process begins to listen. No port is
// returned twice in a process.
func FreePort() (int, error) {
	const first, n = 20000, 12000 // below the kernel's range, which begins at 32768
	handedOut.Lock()
	defer handedOut.Unlock()
	for range 100 {
		port := first + rand.IntN(n)
		if handedOut.ports[port] {
			continue
		}
		l, err := net.Listen("tcp", net.JoinHostPort(loopback, strconv.Itoa(port)))
		if err == nil {
			handedOut.ports[port] = true
			return port, l.Close()
		}
	}
	return 0, errors.New("no free port was found in 100 attempts")
}
