package attach

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/memgauge/memgauge/internal/remedy"
	"github.com/memgauge/memgauge/test/env"
)

// TestSeccomp: a program whose filter kills for what attaching needs is refused, goes on, and is entered only with Force.
func TestSeccomp(t *testing.T) {
	python := env.Python{Path: env.Program(t, "python3")}
	kills := start(t, python, "testdata/seccomp.py", "kill")
	_, err := Inject(t.Context(), kills.Process.Pid, "result = 'here'", Options{})
	if !errors.Is(err, ErrFiltered) || remedy.Of(err) == "" {
		t.Errorf("a program with a filter that kills: %v", err)
	}
	if got := answer(t, kills); got != "alive" {
		t.Errorf("it says %q", got)
	}
	allows := start(t, python, "testdata/seccomp.py", "allow")
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	r, err := Inject(ctx, allows.Process.Pid, "result = 'here'", Options{Force: true, Timeout: time.Minute})
	if err != nil || r.Value != "here" {
		t.Errorf("with Force: %+v, %v", r, err)
	}
	if got := answer(t, allows); got != "alive" {
		t.Errorf("it says %q", got)
	}
}

func TestSeccompOfStatus(t *testing.T) {
	for text, want := range map[string]int{"": 0, "Seccomp:\t0\nSeccomp_filters:\t0\n": 0, "Seccomp:\t1\n": -1, "Seccomp:\t2\n": 1,
		"Seccomp:\t2\nSeccomp_filters:\t3\n": 3, "Seccomp:\t1\nSeccomp_filters:\t0\n": -1} {
		if got := parseStatus(text).filters; got != want {
			t.Errorf("%q: %d filters, want %d", text, got, want)
		}
	}
}
