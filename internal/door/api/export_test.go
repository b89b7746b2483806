package api

import "time"

// SetWritePatience is for tests that can't wait for a reader as long as users may.
func SetWritePatience(d time.Duration) (restore func()) {
	before := writePatience
	writePatience = d
	return func() { writePatience = before }
}
