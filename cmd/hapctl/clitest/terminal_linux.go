package clitest

import (
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// OpenTerminal returns both ends of a new terminal: the test reads from screen the output that a program
// writes to tty.
func OpenTerminal(t *testing.T) (screen, tty *os.File) {
	t.Helper()
	screen, err := os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = screen.Close() })
	number, err := unix.IoctlGetInt(int(screen.Fd()), unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.IoctlSetPointerInt(int(screen.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	tty, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = tty.Close() })
	return screen, tty
}

// Until reads the output of a terminal until what it has read ends with end, and returns it.
func Until(t *testing.T, screen *os.File, end string) string {
	t.Helper()
	var got strings.Builder
	part := make([]byte, 4096)
	for !strings.HasSuffix(got.String(), end) {
		n, err := screen.Read(part)
		if err != nil {
			t.Fatalf("%v after %q", err, got.String())
		}
		got.Write(part[:n])
	}
	return got.String()
}
