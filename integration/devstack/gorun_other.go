//go:build !linux

package main

// endWithGoRun does nothing: only Linux has the prctl that signals the end of the parent.
func endWithGoRun() {}
