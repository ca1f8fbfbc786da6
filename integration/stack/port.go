package stack

import (
	"errors"
	"math/rand/v2"
	"net"
	"strconv"
	"sync"
)

// handedOut are the ports that FreePort has returned in this process. Until the new process listens, such a
// port still looks free.
var handedOut = struct {
	sync.Mutex
	ports map[int]bool
}{ports: map[int]bool{}}

// FreePort returns a free port of the loopback address, for a process to listen on. It is outside the range that
// Linux uses for port 0 by default: a port of that range could be taken before the process listens. FreePort
// returns no port twice in a process.
func FreePort() (int, error) {
	const first, n = 20000, 12000 // below Linux' default range, which begins at 32768
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
