// Package config is the worker's configuration: a tree of documented structs. It is read from a YAML file and
// from HAP_ environment variables, and validated as a whole. The keys of hap and worker.reconcile, and
// telemetry.logLevel, can change without a restart: see [Watch].
//
// Errors contain all faults, as document.Faults. [Decisions] is the compiled part that decides requests.
package config
