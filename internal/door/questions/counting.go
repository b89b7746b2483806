package questions

import "fmt"

// Counting is what a process's agent has said of the steps that it counts: what they are ("steps"), or which library's
// it can't count, and why ("hooks").
type Counting struct {
	Name string `json:"name"`
	Text string `json:"text"`
}

// CountingIn is that of a process, the first at first.
func CountingIn(pid int) Of[Counting] {
	return Of[Counting](fmt.Sprintf(`SELECT name, text FROM memgauge.events
	WHERE pid = %d AND name IN ('steps', 'hooks') ORDER BY ts LIMIT 40`, pid))
}
