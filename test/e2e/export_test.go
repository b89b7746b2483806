package e2e

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	collected "go.opentelemetry.io/proto/otlp/collector/metrics/v1"
	"google.golang.org/protobuf/proto"

	"github.com/memgauge/memgauge/internal/faces/metrics"
	"github.com/memgauge/memgauge/internal/formats/model"
	"github.com/memgauge/memgauge/internal/record/session"
	"github.com/memgauge/memgauge/internal/record/store"
	"github.com/memgauge/memgauge/test/env"
)

// keeps is a training that leaks until its world's file "stop" is there.
func keeps(t *testing.T, w *world) *background {
	t.Helper()
	run := w.start("memgauge", "run", "--quiet", "--name", "job", "--session", filepath.Join(w.home, "job"), "--",
		env.Torch(t).Path, script(t, "keeps.py"))
	until(t, "the training", func() bool { return strings.Contains(run.out.String(), "warm") })
	return run
}

var serving = regexp.MustCompile(`serving (http://\S+)/metrics`)

// served starts an export that serves, and gives its address.
func served(t *testing.T, w *world, args ...string) (*background, string) {
	t.Helper()
	b := w.start("memgauge", append([]string{"job", "export", "--prometheus", "127.0.0.1:0"}, args...)...)
	var at []string
	until(t, "the address", func() bool {
		at = serving.FindStringSubmatch(b.err.String())
		return at != nil || ended(b)
	})
	if at == nil {
		t.Fatalf("it does not serve:\n%s", b.err)
	}
	return b, at[1]
}

func get(t *testing.T, from string) (int, string) {
	t.Helper()
	r, err := http.Get(from)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	b, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	return r.StatusCode, string(b)
}

// A real Prometheus scrapes a real session, and OTLP has it too: every query of the dashboard and every rule is
// understood and answered; the export ends by itself some time after the job, or by Ctrl-C, and says that a port is
// taken.
func TestMonitoringOfASession(t *testing.T) {
	env.Long(t, "a real Prometheus, for as long as its alerts need")
	t.Parallel()
	w := newWorld(t)
	deploy := filepath.Join(env.Checkout(), "deploy")
	prometheus := env.Prometheus(t, "prometheus")
	run := keeps(t, w)
	export, address := served(t, w, "--linger", "1s")
	got := &receiver{}
	collector := httptest.NewServer(got)
	defer collector.Close()
	sending := w.start("memgauge", "job", "export", "--otlp", collector.URL, "--interval", "1s")
	config := w.file("prometheus.yml", fmt.Sprintf("global: {scrape_interval: 1s, evaluation_interval: 1s}\n"+
		"rule_files: [%q]\nscrape_configs: [{job_name: memgauge, static_configs: [{targets: [%q]}]}]\n",
		filepath.Join(deploy, "prometheus", "memgauge.rules.yml"), strings.TrimPrefix(address, "http://")))
	listen := "127.0.0.1:" + env.FreePort(t)
	server := w.start(prometheus, "--config.file="+config, "--storage.tsdb.path="+filepath.Join(w.home, "tsdb"),
		"--web.listen-address="+listen, "--log.level=warn")
	p := asked{t, "http://" + listen}
	until(t, "Prometheus", func() bool { return ended(server) || p.up() })
	until(t, "the verdict", func() bool { return len(p.query(`memgauge_verdict{verdict="leak"} == 1`)) == 1 })
	until(t, "the alert", func() bool { return len(p.query(`ALERTS{alertname="MemgaugeLeak"}`)) == 1 })
	if rate := p.query(`memgauge_leak_rate_bytes_per_step{memory=~"host.*"}`); len(rate) != 1 ||
		rate[0] < 200<<10 || rate[0] > 320<<10 {
		t.Errorf("leaks %v bytes a step, want 256 KiB", rate)
	}
	panels(t, p, filepath.Join(deploy, "grafana", "memgauge.json"))
	if sick := p.rules(); len(sick) > 0 {
		t.Errorf("rules that fail: %v", sick)
	}

	got.live(t, sending)
	if r := w.do("memgauge", "job", "export", "--prometheus", strings.TrimPrefix(address, "http://")); r.code != 1 ||
		!strings.Contains(r.stderr, "address already in use") ||
		!strings.Contains(r.stderr, "hint: name another port") {
		t.Errorf("a port that is taken: exit %d\n%s", r.code, r.stderr)
	}
	other, _ := served(t, w)
	_ = other.Process.Signal(os.Interrupt)
	if code := other.wait(t); code != 0 {
		t.Errorf("Ctrl-C: exit %d\n%s", code, other.err)
	}

	w.file("stop", "")
	run.wait(t)
	until(t, "the end of the job in Prometheus", func() bool {
		return len(p.query(`memgauge_session_live == 0`)) == 1 || ended(export)
	})
	if code := export.wait(t); code != 0 || !strings.Contains(export.err.String(), "the job has ended; its last "+
		"values are served for 1 s") {
		t.Errorf("exit %d\n%s", code, export.err)
	}
	_ = server.Process.Signal(syscall.SIGTERM)
	server.wait(t)
	got.over(t, w, sending, collector)
	finishedIsServed(t, w)
}

// finishedIsServed: of a finished session the last values are served until Ctrl-C.
func finishedIsServed(t *testing.T, w *world) {
	export, address := served(t, w)
	code, text := get(t, address+"/metrics")
	for _, want := range []string{`memgauge_session_live{session="job"} 0`,
		`memgauge_verdict{session="job",verdict="leak"} 1`,
		`memgauge_process_memory_bytes{class="anon",rank="",role="trainer",session="job"}`} {
		if code != 200 || !strings.Contains(text, want) {
			t.Errorf("finished: %d, without %s in\n%s", code, want, text)
		}
	}
	request, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, address+"/metrics", nil)
	request.Host = "rebound.example"
	if r, err := http.DefaultClient.Do(request); err != nil || r.StatusCode != http.StatusForbidden {
		t.Errorf("under another name: %v, %v", r, err)
	} else {
		r.Body.Close()
	}
	_ = export.Process.Signal(os.Interrupt)
	if code := export.wait(t); code != 0 {
		t.Errorf("Ctrl-C: exit %d\n%s", code, export.err)
	}
}

// asked is a Prometheus that is asked by its HTTP API.
type asked struct {
	t  *testing.T
	at string
}

func (p asked) up() bool {
	r, err := http.Get(p.at + "/-/ready")
	if err != nil {
		return false
	}
	defer r.Body.Close()
	return r.StatusCode == http.StatusOK
}

// query gives the values of an expression; one that Prometheus does not understand fails the test.
func (p asked) query(expr string) []float64 {
	p.t.Helper()
	_, body := get(p.t, p.at+"/api/v1/query?query="+url.QueryEscape(expr))
	var reply struct {
		Status, Error string
		Data          struct {
			Result []struct{ Value [2]any }
		}
	}
	if err := json.Unmarshal([]byte(body), &reply); err != nil || reply.Status != "success" {
		p.t.Fatalf("query %s: %v %s", expr, err, body)
	}
	values := []float64{}
	for _, r := range reply.Data.Result {
		var v float64
		if text, ok := r.Value[1].(string); ok {
			_, _ = fmt.Sscan(text, &v)
		}
		values = append(values, v)
	}
	return values
}

// rules are those that can't be evaluated.
func (p asked) rules() (sick []string) {
	_, body := get(p.t, p.at+"/api/v1/rules")
	var reply struct {
		Data struct {
			Groups []struct {
				Rules []struct{ Name, Health, LastError string }
			}
		}
	}
	if err := json.Unmarshal([]byte(body), &reply); err != nil || len(reply.Data.Groups) == 0 {
		p.t.Fatalf("rules: %v %s", err, body)
	}
	for _, g := range reply.Data.Groups {
		for _, r := range g.Rules {
			if r.Health != "ok" {
				sick = append(sick, r.Name+": "+r.Health+" "+r.LastError)
			}
		}
	}
	return sick
}

// panels asks every query of a dashboard. Without a GPU those of GPUs have no answer; all others must.
func panels(t *testing.T, p asked, path string) {
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var dashboard struct {
		Panels []struct {
			Title   string
			Targets []struct{ Expr string }
		}
	}
	if err := json.Unmarshal(b, &dashboard); err != nil || len(dashboard.Panels) < 10 {
		t.Fatalf("%v, %d panels", err, len(dashboard.Panels))
	}
	known := map[string]bool{}
	for _, m := range metrics.All {
		known[m.Prom()] = true
	}
	for _, panel := range dashboard.Panels {
		found := 0
		for _, target := range panel.Targets {
			found += len(p.query(strings.ReplaceAll(target.Expr, "$session", "job|.*x")))
			for _, name := range regexp.MustCompile(`memgauge_\w+`).FindAllString(target.Expr, -1) {
				if !known[name] {
					t.Errorf("panel %s asks for %s, which is not served", panel.Title, name)
				}
			}
		}
		if found == 0 && !strings.Contains(panel.Title, "GPU") {
			t.Errorf("panel %s: no answer", panel.Title)
		}
	}
}

// promtool checks the rules and runs their own tests.
func TestAlertRules(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	promtool := env.Prometheus(t, "promtool")
	for _, args := range [][]string{{"check", "rules", "memgauge.rules.yml"},
		{"test", "rules", "memgauge.rules_test.yml"}} {
		cmd := w.command(promtool, args...)
		cmd.Dir = filepath.Join(env.Checkout(), "deploy", "prometheus")
		if r := w.finish(cmd); r.code != 0 {
			t.Errorf("promtool %v: exit %d\n%s%s", args, r.code, r.stdout, r.stderr)
		}
	}
}

// receiver takes what an exporter of OpenTelemetry sends, by the protocol's own definitions.
type receiver struct {
	mu     sync.Mutex
	values map[string]float64 // the newest of each metric, over all series the largest
	units  map[string]string
	posts  int
}

func (r *receiver) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	body, err := io.ReadAll(q.Body)
	var got collected.ExportMetricsServiceRequest
	if err == nil {
		err = proto.Unmarshal(body, &got)
	}
	if err != nil || q.URL.Path != "/v1/metrics" || q.Header.Get("Content-Type") != "application/x-protobuf" {
		http.Error(w, fmt.Sprint(err), http.StatusBadRequest)
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.posts++
	r.values, r.units = map[string]float64{}, map[string]string{}
	for _, of := range got.ResourceMetrics {
		for _, scope := range of.ScopeMetrics {
			for _, m := range scope.Metrics {
				r.units[m.Name] = m.Unit
				for _, point := range append(m.GetGauge().GetDataPoints(), m.GetSum().GetDataPoints()...) {
					r.values[m.Name] = max(r.values[m.Name], point.GetAsDouble())
				}
			}
		}
	}
}

func (r *receiver) value(name string) (float64, string, int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.values[name], r.units[name], r.posts
}

// live: a live session is sent again and again, its end once more, and then the command ends; a finished one once.
func (r *receiver) live(t *testing.T, export *background) {
	t.Helper()
	until(t, "two sendings", func() bool { _, _, n := r.value(""); return n >= 2 || ended(export) })
	if steps, _, _ := r.value("memgauge.steps"); steps < 20 {
		t.Errorf("%g steps\n%s", steps, export.err)
	}
	if bytes, unit, _ := r.value("memgauge.process.memory"); bytes < 10<<20 || unit != "By" {
		t.Errorf("%g %s of memory", bytes, unit)
	}
	if live, _, _ := r.value("memgauge.session.live"); live != 1 {
		t.Errorf("live: %g", live)
	}
}

func (r *receiver) over(t *testing.T, w *world, export *background, server *httptest.Server) {
	t.Helper()
	if code := export.wait(t); code != 0 {
		t.Errorf("exit %d\n%s", code, export.err)
	}
	live, _, posts := r.value("memgauge.session.live")
	if live != 0 {
		t.Errorf("the end was not sent")
	}
	w.mg("job", "export", "--otlp", server.URL)
	if _, _, after := r.value(""); after <= posts {
		t.Errorf("a finished session was not sent")
	}
	server.Close()
	if r := w.do("memgauge", "job", "export", "--otlp", server.URL); r.code != 1 ||
		!strings.Contains(r.stderr, "connection refused") {
		t.Errorf("nobody there: exit %d\n%s", r.code, r.stderr)
	}
}

// Readers of others open what export writes: of a live job and of a finished one.
func TestExportedFilesOpen(t *testing.T) {
	env.Long(t, "the readers of six formats, each a large import")
	t.Parallel()
	w := newWorld(t)
	readers := env.Readers(t)
	run := keeps(t, w)
	flags := []string{"job", "export", "--perfetto", "t.json.gz", "--pprof", "holders.pb.gz", "--tensorboard", "runs",
		"--parquet", "tables"}
	until(t, "steps", func() bool {
		return w.number(filepath.Join(w.home, "job"), "SELECT max(step) FROM python.steps") >= 200
	})
	w.mg(flags...)
	openFiles(t, w, readers, "200")
	until(t, "the verdict", func() bool { return w.do("memgauge", "job", "leak").code == 3 })
	w.file("stop", "")
	run.wait(t)
	steps := fmt.Sprint(int64(w.number(filepath.Join(w.home, "job"), "SELECT max(step) FROM python.steps")))
	w.mg(flags...)
	openFiles(t, w, readers, steps, "leak")
	rows := env.TraceRows(t, filepath.Join(w.home, "t.json.gz"),
		"SELECT count(*) >= "+steps+" AS whole FROM slice WHERE name GLOB 'step *'",
		"SELECT DISTINCT name FROM counter_track WHERE name GLOB '*allocated cpu*'", env.TraceErrors)
	if rows[0][0]["whole"] != 1.0 || len(rows[1]) == 0 || len(rows[2]) > 0 {
		t.Errorf("Perfetto reads %v", rows)
	}

	// what can't be written leaves nothing behind
	before := entries(t, w.home)
	w.file("file", "")
	if r := w.do("memgauge", "job", "export", "--perfetto", "new.json", "--tensorboard", "more/runs", "--parquet",
		"file"); r.code != 1 || !strings.Contains(r.stderr, "make file: not a directory") {
		t.Errorf("exit %d\n%s", r.code, r.stderr)
	}
	after := slices.DeleteFunc(entries(t, w.home), func(s string) bool { return s == "file" })
	if !slices.Equal(after, before) {
		t.Errorf("left behind: %v, before %v", after, before)
	}
}

func entries(t *testing.T, dir string) (names []string) {
	t.Helper()
	list, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range list {
		names = append(names, e.Name())
	}
	return names
}

// openFiles has each file read by the program that it is for.
func openFiles(t *testing.T, w *world, readers env.Python, known ...string) {
	t.Helper()
	r := w.finish(w.command(readers.Path, append([]string{script(t, "readers.py")}, known...)...))
	if r.code != 0 {
		t.Errorf("readers.py: exit %d\n%s%s", r.code, r.stdout, r.stderr)
	}
	pprof := w.do(env.Program(t, "go"), "tool", "pprof", "-top", "-lines", "holders.pb.gz")
	if pprof.code != 0 || !regexp.MustCompile(`(?m)MB .*kept\S* .*keeps\.py:\d+$`).MatchString(pprof.stdout) {
		t.Errorf("pprof: exit %d\n%s%s", pprof.code, pprof.stdout, pprof.stderr)
	}
}

// longSteps is a session as long as a month of training: what it takes to export it must not grow with it.
const longSteps = 1_000_000

// longSession makes a finished session of that many steps, 100 ms each.
func longSession(t *testing.T, w *world) string {
	t.Helper()
	t.Setenv("MEMGAUGE_HOME", filepath.Join(w.home, "state"))
	s, err := session.Create(session.Options{Name: "long", Command: []string{"train"}})
	if err != nil {
		t.Fatal(err)
	}
	db, err := store.Open(t.Context(), store.Options{Path: s.Database()})
	if err != nil {
		t.Fatal(err)
	}
	began := s.Meta.Started.UnixMicro()
	tree := model.TreeProcess{PID: 7, Rank: 0, Role: "trainer", Started: began, FirstSeen: began, LastSeen: began + 1}
	first := model.Batch{Samples: model.Samples{Tree: []model.TreeProcess{tree}}}
	if err := db.Append(t.Context(), &first); err != nil {
		t.Fatal(err)
	}
	for at := int64(0); at < longSteps; {
		var b model.Batch
		for range 50_000 {
			at++
			b.Steps = append(b.Steps, model.Step{Time: began + at*100_000, PID: 7, World: 1, Step: at, Steps: 1,
				DurationNS: 90e6, Device: -1, Allocated: 1<<30 + at%977, MaxAllocated: 1 << 31, Reserved: 1 << 31,
				MaxReserved: 1 << 31, RSS: 1 << 31, Anon: 1 << 30, MaxRSS: model.Null, HeapInUse: 1 << 29,
				HeapHeld: 1 << 30})
		}
		if err := db.Append(t.Context(), &b); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(db.Close(), s.SetEnd(session.End{State: "exited"})); err != nil {
		t.Fatal(err)
	}
	return s.Dir
}

// A million steps are exported in the memory that a thousand need, and Ctrl-C in the middle leaves no file.
func TestLongSessionIsExported(t *testing.T) {
	env.Long(t, "a session of many hours")
	w := newWorld(t)
	dir := longSession(t, w)
	out := filepath.Join(w.home, "out")
	if err := os.Mkdir(out, 0o755); err != nil {
		t.Fatal(err)
	}
	flags := []string{"export", "--session", dir, "--perfetto", "out/t.json.gz", "--tensorboard", "out/runs",
		"--parquet", "out/tables"}
	cut := w.start("memgauge", flags...)
	until(t, "half a file", func() bool {
		half, _ := filepath.Glob(filepath.Join(out, ".memgauge-*"))
		return len(half) > 0 || ended(cut)
	})
	_ = cut.Process.Signal(os.Interrupt)
	if code := cut.wait(t); code != 130 || !strings.Contains(cut.err.String(), "export: canceled") {
		t.Errorf("Ctrl-C: exit %d\n%s", code, cut.err)
	}
	if left, _ := os.ReadDir(out); len(left) > 0 {
		t.Errorf("Ctrl-C left %v", left)
	}
	cmd := w.command("memgauge", flags...)
	r := w.finish(cmd)
	peak := cmd.ProcessState.SysUsage().(*syscall.Rusage).Maxrss >> 10 // MiB
	t.Logf("peak %d MiB, %s of processor time", peak, cmd.ProcessState.UserTime())
	// DuckDB may take 512 MiB; the program itself has 100 MiB of code
	if r.code != 0 || peak > 900 || !strings.Contains(r.stderr, "1000000 steps: 5 make one slice") {
		t.Errorf("exit %d, %d MiB\n%s", r.code, peak, r.stderr)
	}
	for _, file := range []string{"t.json.gz", "runs/rank0", "tables/python.steps.parquet"} {
		if !exists(filepath.Join(out, file)) {
			t.Errorf("no %s", file)
		}
	}
}
