package attach

import "fmt"

// Check is the result of one check of a target.
type Check struct {
	Name   string // such as "permission"
	Detail string // what was found, if Err is nil
	Err    error  // the obstacle; its remedy says what to do
}

// Diagnose makes all checks that Inject makes before it touches the target, and says what Inject would do. It ends with
// the first obstacle.
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
