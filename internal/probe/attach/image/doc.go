// Package image owns what can be learned about another process's address space without its help: the list of its
// mappings, and the symbols of the programs and libraries in it. It reads them from memory, not from files: files may
// lie under another root or in another namespace, or may have been replaced on disk since the process began. All data
// are untrusted: bounded, checked, never followed twice. The package knows nothing of Python.
package image
