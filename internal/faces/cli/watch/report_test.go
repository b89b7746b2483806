package watch

import (
	"path/filepath"
	"testing"

	"github.com/memgauge/memgauge/internal/door/api"
	"github.com/memgauge/memgauge/internal/door/ask"
)

// TestReportName: a session that calls itself a path gets a report in this directory like any other.
func TestReportName(t *testing.T) {
	for name, want := range map[string]string{"resnet": "memgauge-resnet.html",
		"x/../../RPWN": "memgauge-x_.._.._RPWN.html", "/etc/passwd": "memgauge-_etc_passwd.html"} {
		got := reportName(ask.Far(api.About{Name: name}, -1, nil))
		if got != want || filepath.Base(got) != got {
			t.Errorf("%q: %q, want %q", name, got, want)
		}
	}
}
