// Package cli is the command line: one file a command, each an options struct, its flags, and a run function. It owns
// what is printed, the exit codes and the order of arguments; everything else it asks of the packages above it.
package cli
