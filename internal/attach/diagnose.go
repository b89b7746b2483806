package attach

import "fmt"

// Check is the answer to one question about a target.
type Check struct {
	Name   string // such as "permission"
	Detail string // what was found, if Err is nil
	Err    error  // what stands in the way; its remedy says what to do
}

// Diagnose asks all that Inject asks before it touches the target, and what it would do. It ends with the first thing
// that stands in the way.
func Diagnose(pid int) []Check {
	t := &Target{PID: pid}
	defer t.Close()
	var checks []Check
	for _, s := range steps {
		detail, err := s.ask(t)
		checks = append(checks, Check{s.name, detail, err})
		if err != nil {
			return checks
		}
	}
	return append(checks, Check{Name: "way in", Detail: t.wayIn()})
}

// wayIn says what Inject would do now.
func (t *Target) wayIn() string {
	if t.held != nil {
		return string(RemoteDebug)
	}
	m := t.glance(t.PID)
	if !m.ready {
		return fmt.Sprintf("%s, when the main thread is done with what it does (%s)", NewThread, m.doing)
	}
	return fmt.Sprintf("%s, from the main thread (%s)", NewThread, m.doing)
}
