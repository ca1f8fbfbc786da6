package stack

import (
	"errors"
	"math/rand/v2"
	"net"
	"strconv"
)

// FreePort gives a port of the loopback address that a process can be told to listen
// on. It is none of those that the kernel gives to whoever asks for any: one of them
// may be taken by somebody else before the process begins to listen.
func FreePort() (int, error) {
	const first, n = 20000, 12000 // below the kernel's range, which begins at 32768
	for range 100 {
		port := first + rand.IntN(n)
		l, err := net.Listen("tcp", net.JoinHostPort(loopback, strconv.Itoa(port)))
		if err == nil {
			return port, l.Close()
		}
	}
	return 0, errors.New("no free port was found in 100 attempts")
}
