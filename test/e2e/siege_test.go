package e2e

import (
	"encoding/json"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/memgauge/memgauge/test/env"
)

// TestSiege is the short form of test/bench/siege.py: hostile acts by chance against live trainings. Its seed is always
// the same, so that it does the same to every build; other seeds are for the long form.
func TestSiege(t *testing.T) {
	env.Long(t, "a soak: hostile acts against live trainings, a few seconds each")
	t.Parallel()
	env.Root(t)
	python := env.Torch(t).Path
	w, acts := newWorld(t), env.Times(25, 100)
	script, err := filepath.Abs("../bench/siege.py")
	if err != nil {
		t.Fatal(err)
	}
	cmd := w.command(python, "-B", script, "--memgauge", filepath.Join(w.home, "bin", "memgauge"),
		"--acts", strconv.Itoa(acts), "--side-by-side", "2", "--seed", "1")
	var out, said strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &said
	timer := time.AfterFunc(time.Duration(5+acts/4)*patience, func() { _ = cmd.Process.Kill() })
	defer timer.Stop()
	if err := cmd.Run(); err != nil {
		t.Fatalf("%v\n%s%s", err, out.String(), said.String())
	}
	var got struct {
		Acts     int
		Compared int `json:"steps compared"`
		Searched int `json:"files searched"`
	}
	err = json.Unmarshal([]byte(out.String()), &got)
	if err != nil || got.Acts != acts || got.Compared == 0 || got.Searched < 10 {
		t.Errorf("%v\n%s", err, out.String())
	}
	t.Log(out.String())
}
