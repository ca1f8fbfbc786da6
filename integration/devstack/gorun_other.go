//go:build !linux

package main

// endWithGoRun does nothing: only Linux signals a process when its parent ends.
func endWithGoRun() {}
