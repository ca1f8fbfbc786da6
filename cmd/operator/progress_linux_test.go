package operator

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"unsafe"

	"github.com/hap-worker/hap-worker/worker/observe"
)

// openTerminal returns both ends of a new terminal: what a program writes to tty is
// read from screen.
func openTerminal(t *testing.T) (screen, tty *os.File) {
	t.Helper()
	screen, err := os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = screen.Close() })
	var number, unlock int32
	ask := func(request uintptr, value *int32) {
		if _, _, errno := syscall.Syscall(syscall.SYS_IOCTL, screen.Fd(), request, uintptr(unsafe.Pointer(value))); errno != 0 {
			t.Fatal(errno)
		}
	}
	ask(syscall.TIOCGPTN, &number)
	ask(syscall.TIOCSPTLCK, &unlock)
	tty, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = tty.Close() })
	return screen, tty
}

// rebuildOfThree prints what a rebuild of three places tells, and what is said after it.
func rebuildOfThree(s *shell) {
	p := s.progress()
	for _, step := range []observe.Step{
		observe.StepToken, observe.StepSealed, observe.StepGathered, observe.StepInstalled, observe.StepInstalled, observe.StepInstalled,
	} {
		p.rebuilds(context.Background(), step)
	}
	p.end()
	s.say("done")
}

// TestProgress: a line for each stage; how much is done only on a terminal.
func TestProgress(t *testing.T) {
	var talk bytes.Buffer
	rebuildOfThree(&shell{stderr: stream{&talk}})
	const want = `hapctl: rebuild: sealing what is not settled
hapctl: rebuild: reading ledger, labels and Shoots
hapctl: rebuild: putting pools and directory in place
hapctl: done
`
	if talk.String() != want {
		t.Errorf("nobody looks, and is told\n%s", talk.String())
	}
	t.Setenv("TERM", "xterm")
	if got := seen(t); !strings.Contains(got, "\r\x1b[Khapctl: rebuild: putting pools and directory in place: 3\r\nhapctl: done\r\n") {
		t.Errorf("the terminal shows %q", got)
	}
	t.Setenv("TERM", "dumb")
	if got := strings.ReplaceAll(seen(t), "\r\n", "\n"); got != want {
		t.Errorf("a terminal that cannot move shows %q", got)
	}
}

// seen returns what a terminal gets of it.
func seen(t *testing.T) string {
	t.Helper()
	screen, tty := openTerminal(t)
	rebuildOfThree(&shell{stderr: stream{tty}})
	return until(t, screen, "hapctl: done\r\n")
}
