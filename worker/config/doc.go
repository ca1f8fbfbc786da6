// Package config is the worker's configuration: one tree of documented structs,
// read from a YAML file and from HAP_ environment variables, checked as a whole,
// and taken over without a restart where that is possible.
//
// Faults are collected, never returned one at a time: see [Invalid]. What a
// decision needs of it is compiled once into [Decisions].
package config
