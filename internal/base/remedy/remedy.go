// Package remedy attaches to an error what a user can do about it, and carries it to the one place that prints it. It
// knows nothing of commands or output.
package remedy

import "errors"

type hinted struct {
	err  error
	hint string
}

func (h *hinted) Error() string { return h.err.Error() }
func (h *hinted) Unwrap() error { return h.err }

// Add returns err with a hint: one sentence that begins in lower case and names a command or a setting. A nil err stays
// nil.
func Add(err error, hint string) error {
	if err == nil {
		return nil
	}
	return &hinted{err, hint}
}

// Of is the outermost hint of err, or "".
func Of(err error) string {
	var h *hinted
	if errors.As(err, &h) {
		return h.hint
	}
	return ""
}
