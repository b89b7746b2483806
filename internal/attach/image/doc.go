// Package image owns what is known of another process's address space without its help: the list of its mappings, and
// the symbols of the programs and libraries in it, read from its memory. Memory and not files, since those may lie in
// another root or namespace, or have been replaced on disk since the process began. Everything read is untrusted:
// bounded, checked, never followed twice. It knows nothing of Python.
package image
