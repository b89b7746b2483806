package doctor

import (
	"bytes"
	"context"
	"fmt"
	"strconv"

	"github.com/memgauge/memgauge/internal/base/remedy"
	"github.com/memgauge/memgauge/internal/door/api"
	"github.com/memgauge/memgauge/internal/door/ask"
	"github.com/memgauge/memgauge/internal/door/questions"
	"github.com/memgauge/memgauge/internal/faces/cli/app"
	"github.com/memgauge/memgauge/internal/faces/doctor"
	"github.com/memgauge/memgauge/internal/formats/doc"
	"github.com/memgauge/memgauge/internal/probe/attach"
)

// doctorTarget prints whether and how attach would work for a process.
func (a *commands) doctorTarget(ctx context.Context, arg string, o doctorOptions) error {
	pid, err := strconv.Atoi(arg)
	if err != nil || pid <= 0 {
		return app.Usage(fmt.Errorf("doctor: %q is not a PID", arg))
	}
	checks, broken := targetChecks(attach.Diagnose(pid))
	checks = append(checks, counted(ctx, pid)...)
	if o.json {
		err = doc.WriteJSON(a.Stdout, struct {
			SchemaVersion int            `json:"schema_version"`
			PID           int            `json:"pid"`
			Checks        []doctor.Check `json:"checks"`
		}{doc.JSONVersion, pid, checks})
	} else {
		var b bytes.Buffer
		writeDoctorChecks(&b, checks)
		_, err = a.Text().Write(b.Bytes())
	}
	if err == nil && broken {
		return app.Exit(app.ExitFindings, nil)
	}
	return err
}

// counted says of a process that is observed what its steps are, and which libraries' work is not counted; of another,
// and of a session that doesn't answer, it says nothing.
func counted(ctx context.Context, pid int) (checks []doctor.Check) {
	t, err := ask.Find(ask.Wanted{PID: pid})
	if err != nil || !t.IsLive() {
		return nil
	}
	s, err := t.Connect(ctx)
	if err != nil {
		return nil
	}
	defer s.Close()
	rows, err := api.Ask(ctx, s, questions.CountingIn(pid))
	if err != nil {
		return nil
	}
	for _, r := range rows {
		check := doctor.Check{Name: "steps", State: doctor.Works, Found: "counts " + r.Text}
		if r.Name == "hooks" {
			check.State, check.Found = doctor.Limited, r.Text
		}
		checks = append(checks, check)
	}
	return checks
}

func targetChecks(from []attach.Check) (checks []doctor.Check, broken bool) {
	for _, c := range from {
		check := doctor.Check{Name: c.Name, State: doctor.Works, Found: c.Detail}
		if c.Err != nil {
			check.State, check.Found, check.Hint, broken = doctor.Broken, c.Err.Error(), remedy.Of(c.Err), true
		}
		checks = append(checks, check)
	}
	return checks, broken
}
