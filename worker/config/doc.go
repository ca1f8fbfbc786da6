// Package config is the worker's configuration: a tree of documented structs. It is read from a YAML file and
// from HAP_ environment variables, and validated as a whole. The keys of hap and worker.reconcile, and
// telemetry.logLevel, can change without a restart: see [Watch].
//
// The error for an invalid configuration is a document.Faults with all its faults. [Config.Decisions] compiles the
// part that decides requests.
package config
