// Package service implements api.Session: Job answers from the session's directory and its live processes, and Service
// from its open database as well. The answers are the same in a collector and in a client that has opened a finished
// session. The package starts no process, takes no lock and decides nothing about the session's life.
package service
