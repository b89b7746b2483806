package env

import (
	"strings"
	"testing"
)

func TestEveryPythonRuns(t *testing.T) {
	all := map[string][]Python{}
	for name, find := range map[string]func(testing.TB) []Python{"torches": Torches, "cpythons": CPythons,
		"chroot": ChrootCPythons} {
		t.Run(name, func(t *testing.T) { all[name] = find(t) })
	}
	for name, pythons := range all {
		for _, p := range pythons {
			t.Run(name+"/"+p.Name(), func(t *testing.T) {
				out,
					err := p.Command(t, "-c",
					"import os, sys; print(sys.version_info[0], open('/proc/self/stat').read().split()[0] == str(os.getpid()), os.getcwd())").CombinedOutput()
				if err != nil {
					t.Fatalf("%v\n%s", err, out)
				}
				if got := strings.Fields(string(out)); len(got) != 3 || got[0] != "3" || got[1] != "True" ||
					!strings.HasSuffix(got[2], "/test/env") {
					t.Errorf("printed %q, want 3, its own PID in /proc, and this directory", out)
				}
			})
		}
	}
}

func TestMissingPartIsNamed(t *testing.T) {
	t.Setenv("MEMGAUGE_NOT_THERE", "")
	value, reason := lookup("nothing", "MEMGAUGE_NOT_THERE")
	if value != "" || !strings.Contains(reason, "scripts/testenv") {
		t.Errorf("lookup = %q, %q; want no value and a reason that names scripts/testenv", value, reason)
	}
}
