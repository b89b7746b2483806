// Package native owns the library that samples a process's native memory: it carries the library, brings it into a
// command's environment, and reads what it leaves in files: live samples with their C and Python stacks, as estimates
// by stack (docs/native.md, docs/formats/native.md). It does not know where estimates are stored, or what they mean.
package native
