package stack

import "syscall"

// childAttributes makes the kernel kill a child whose parent has died, and keeps a terminal's Ctrl-C from
// children: the stack stops them in order.
func childAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
}
