package prom

import (
	"compress/gzip"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"strings"
	"testing"

	"github.com/memgauge/memgauge/internal/faces/metrics"
	"github.com/memgauge/memgauge/test/env"
)

func named(t *testing.T, name string) *metrics.Metric {
	t.Helper()
	for _, m := range metrics.All {
		if m.Prom() == name {
			return m
		}
	}
	t.Fatal(name)
	return nil
}

// reading has a gauge, a counter, and labels with everything that is escaped, out of order.
func reading(t *testing.T) metrics.Reading {
	t.Helper()
	of := func(name string, value float64, labels ...string) metrics.Sample {
		return metrics.Sample{Metric: named(t, name), Values: labels, Value: value}
	}
	return metrics.Reading{Session: "a\"b\\c\nd\xff", Samples: []metrics.Sample{
		of("memgauge_cgroup_memory_pressure_seconds_total", 1.5, "some"),
		of("memgauge_steps_total", 1e9, "0"), of("memgauge_processes", 3, "0", "rank"),
		of("memgauge_steps_total", math.Inf(1), "1")}}
}

func scraped(t *testing.T, headers ...string) (kind, text string) {
	t.Helper()
	q := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/metrics", nil)
	for i := 0; i < len(headers); i += 2 {
		q.Header.Set(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	answer(w, q, reading(t))
	var body io.Reader = w.Body
	if w.Header().Get("Content-Encoding") == "gzip" {
		packed, err := gzip.NewReader(body)
		if err != nil {
			t.Fatal(err)
		}
		kind, body = "gzip ", packed
	}
	all, err := io.ReadAll(body)
	if err != nil {
		t.Fatal(err)
	}
	return kind + w.Header().Get("Content-Type"), string(all)
}

// TestText: what a scraper gets, to the byte: the series of a metric together, labels escaped.
func TestText(t *testing.T) {
	const steps, processes = "Training steps made\n", "Processes of the job\n"
	const session = `session="a\"b\\c\nd` + "\uFFFD\""
	pressure := named(t, "memgauge_cgroup_memory_pressure_seconds_total").Help + "\n"
	series := map[string]string{
		"steps": "memgauge_steps_total{rank=\"0\"," + session + "} 1e+09\n" +
			"memgauge_steps_total{rank=\"1\"," + session + "} +Inf\n",
		"processes": "memgauge_processes{rank=\"0\",role=\"rank\"," + session + "} 3\n",
		"pressure":  "memgauge_cgroup_memory_pressure_seconds_total{kind=\"some\"," + session + "} 1.5\n"}
	kind, got := scraped(t)
	want := "# HELP memgauge_processes " + processes + "# TYPE memgauge_processes gauge\n" + series["processes"] +
		"# HELP memgauge_steps_total " + steps + "# TYPE memgauge_steps_total counter\n" + series["steps"] +
		"# HELP memgauge_cgroup_memory_pressure_seconds_total " + pressure +
		"# TYPE memgauge_cgroup_memory_pressure_seconds_total counter\n" + series["pressure"]
	if got != want || kind != older.kind {
		t.Errorf("%s\n%s\nwant\n%s", kind, got, want)
	}
	kind, got = scraped(t, "Accept", "application/openmetrics-text")
	want = "# HELP memgauge_processes " + processes + "# TYPE memgauge_processes gauge\n" + series["processes"] +
		"# HELP memgauge_steps " + steps + "# TYPE memgauge_steps counter\n" + series["steps"] +
		"# HELP memgauge_cgroup_memory_pressure_seconds " + pressure +
		"# TYPE memgauge_cgroup_memory_pressure_seconds counter\n" +
		"# UNIT memgauge_cgroup_memory_pressure_seconds seconds\n" + series["pressure"] + "# EOF\n"
	if got != want || kind != openMetrics.kind {
		t.Errorf("%s\n%s\nwant\n%s", kind, got, want)
	}
}

// TestAsked: a scraper gets what it likes best, and what everybody reads where it says nothing of ours.
func TestAsked(t *testing.T) {
	const prometheus = "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6," +
		"application/openmetrics-text;version=0.0.1;q=0.5,text/plain;version=1.0.0;q=0.4," +
		"text/plain;version=0.0.4;q=0.3,*/*;q=0.2"
	for accept, want := range map[string]string{"": older.kind, prometheus: openMetrics.kind, "*/*": older.kind,
		"text/html": older.kind, "text/plain,application/openmetrics-text;q=0.9": older.kind,
		"application/openmetrics-text;q=0": older.kind, "application/openmetrics-text;q=x": older.kind,
		"text/*;q=0.1, application/openmetrics-text": openMetrics.kind} {
		if kind, _ := scraped(t, "Accept", accept); kind != want {
			t.Errorf("%q: %s", accept, kind)
		}
	}
	_, whole := scraped(t)
	for encoding, packed := range map[string]bool{"gzip": true, "zstd, gzip;q=0.5": true, "gzip;q=0": false,
		"br": false} {
		kind, text := scraped(t, "Accept-Encoding", encoding)
		if strings.HasPrefix(kind, "gzip ") != packed || text != whole {
			t.Errorf("%q: %s", encoding, kind)
		}
	}
}

// TestPromtoolReads: Prometheus' own tool finds nothing wrong with what is served.
func TestPromtoolReads(t *testing.T) {
	tool := env.Prometheus(t, "promtool")
	_, text := scraped(t)
	cmd := exec.CommandContext(t.Context(), tool, "check", "metrics")
	cmd.Stdin = strings.NewReader(text)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
}
