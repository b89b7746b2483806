// Package service answers what package api lets one ask of a session: Job from the session's directory and its live
// processes, Service from its open database besides. Where that runs (in a collector, or in a client that has opened a
// finished session) makes no difference to an answer. It starts no process, takes no lock and decides on no life cycle.
package service
