package stack

import "syscall"

// childAttributes has the kernel end a child whose parent is gone, however it
// went, and keeps a terminal's Ctrl-C from children: the stack stops them in order.
func childAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
}
