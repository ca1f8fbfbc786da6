//go:build !linux

package stack

import "syscall"

// childAttributes keeps a terminal's Ctrl-C from children: the stack stops them in order.
func childAttributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
