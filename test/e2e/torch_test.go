package e2e

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/memgauge/memgauge/test/env"
)

func script(t *testing.T, name string) string {
	t.Helper()
	path, err := filepath.Abs(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return path
}

func eachTorch(t *testing.T, f func(t *testing.T, python string)) {
	for _, p := range env.Torches(t) {
		t.Run(p.Name(), func(t *testing.T) {
			t.Parallel()
			f(t, p.Path)
		})
	}
}

// A training whose leak is known: 2 MiB a step. What the database says must be what the program did.
func TestTrainingIsRecordedRight(t *testing.T) {
	t.Parallel()
	eachTorch(t, func(t *testing.T, python string) {
		w := newWorld(t)
		s := filepath.Join(w.home, "s")
		r := w.do("memgauge", "run", "--session", s, "--trace", "all", "--", python, script(t, "train.py"), "60", "2")
		if r.code != 0 || !strings.Contains(r.stdout, "done 60") {
			t.Fatalf("exit %d\n%s%s", r.code, r.stdout, r.stderr)
		}
		if n := w.number(s, "SELECT sum(steps) FROM python.steps"); n != 60 {
			t.Errorf("%v steps, want 60", n)
		}
		if n := w.number(s, "SELECT max(step) FROM python.steps"); n != 60 {
			t.Errorf("last step %v, want 60", n)
		}
		modules := w.one(s,
			"SELECT string_agg(DISTINCT module, ' ' ORDER BY module) FROM python.torch_trace WHERE stage = 'post forward'")
		if modules != "Net attn encoder encoder.0 encoder.1 head" {
			t.Errorf("modules %q", modules)
		}
		for table, sql := range map[string]string{
			"steps": "SELECT regr_slope(anon, step) / 1048576 FROM python.steps WHERE step > 10",
			"trace": "SELECT regr_slope(allocated, step) FROM python.torch_trace WHERE step > 10 AND stage = 'post step'",
		} {
			if slope := w.number(s, sql); math.Abs(slope-2) > 0.2 {
				t.Errorf("%s: growth %.3f MiB/step, want 2", table, slope)
			}
		}
		checkRows(t, w, s)
	})
}

// checkRows holds what is true of every trace, whatever was trained.
func checkRows(t *testing.T, w *world, s string) {
	t.Helper()
	for what, sql := range map[string]string{
		// the agent meets an optimizer in its first step, when that has already begun
		"post rows without a duration": "SELECT count(*) FROM python.torch_trace WHERE stage LIKE 'post %' AND (duration IS NULL OR duration < 0) AND NOT (step = 1 AND stage = 'post step')",
		"pre rows with a duration":     "SELECT count(*) FROM python.torch_trace WHERE stage LIKE 'pre %' AND duration IS NOT NULL",
		"rows out of order":            "SELECT count(*) FROM (SELECT seq - lag(seq) OVER (PARTITION BY pid, step ORDER BY ts, seq) d FROM python.torch_trace) WHERE d <> 1",
		"steps that don't begin at 0":  "SELECT count(*) FROM (SELECT min(seq) m FROM python.torch_trace GROUP BY pid, step) WHERE m <> 0",
		"peaks under the value":        "SELECT count(*) FROM python.torch_trace WHERE max_allocated < allocated OR max_cached < cached",
		"step <> local_step":           "SELECT count(*) FROM python.torch_trace WHERE step <> local_step",
		"ts <> timestamp":              "SELECT count(*) FROM python.torch_trace WHERE epoch_us(ts) <> timestamp",
		"children longer than roots":   "SELECT count(*) FROM python.torch_trace c JOIN python.torch_trace r USING (pid, step) WHERE r.module = 'Net' AND r.stage = 'post forward' AND c.stage = 'post forward' AND c.duration > r.duration",
	} {
		if n := w.number(s, sql); n != 0 {
			t.Errorf("%s: %v", what, n)
		}
	}
}

// statements reads the SQL out of a document: ```sql blocks, and query "…" in the others.
func statements(t *testing.T, path string) []string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var list []string
	for _, block := range regexp.MustCompile("(?s)```(\\w*)\n(.*?)```").FindAllStringSubmatch(string(b), -1) {
		if block[1] == "sql" {
			list = append(list, block[2])
		}
		if m := regexp.MustCompile(`(?s)query "(.*?)"`).FindStringSubmatch(block[2]); m != nil {
			list = append(list, m[1])
		}
	}
	return list
}

// Every statement of the seeds runs as it is written there, on a job that is running.
func TestSeedsSQLLive(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := filepath.Join(w.home, "s")
	python := env.Torch(t).Path
	run := w.start("memgauge", "run", "--session", s, "--trace", "all", "--", python, script(t, "train.py"), "2000",
		"1", "0.02")
	until(t, "some steps", func() bool { return strings.Contains(run.out.String(), "warm") })
	until(t, "20 steps", func() bool {
		return w.number(s,
			"SELECT coalesce(max(step), 0) FROM python.torch_trace") >= 20
	})
	n := 0
	for _, doc := range []string{"probing-memory-analysis.en.md", "probing-memory-leak-example.zh-CN.md"} {
		for _, sql := range statements(t, filepath.Join("..", "..", "testdata", "seeds", doc)) {
			n++
			var rows []map[string]any
			if err := json.Unmarshal([]byte(w.mg("query", "--session", s, "-f", "json", sql)), &rows); err != nil {
				t.Errorf("%s: %v", sql, err)
			}
			// growth or spread that this training hasn't got
			quiet := strings.Contains(sql, "> 50") || strings.Contains(sql, "> 10\n")
			if len(rows) == 0 && !quiet {
				t.Errorf("no rows from\n%s", sql)
			}
		}
	}
	if n != 9 {
		t.Errorf("the seeds hold %d statements, this test knows 9", n)
	}
	growth := w.rows(s, statements(t, "../../testdata/seeds/probing-memory-leak-example.zh-CN.md")[1])
	grown := 0.0
	for _, r := range growth {
		grown += r["growth"].(float64)
	}
	if per := grown / float64(len(growth)); per < 0.5 || per > 2 {
		t.Errorf("peaks grow by %.2f MB a step, want about 1", per)
	}
	// the ENDPOINT is the trainer's PID, as the documents write it
	out := w.mg(fmt.Sprint(trainerPID(t, run)), "query", "-f", "csv",
		"SELECT count(*) > 0 AS rows FROM python.torch_trace")
	if out != "rows\ntrue\n" {
		t.Errorf("by PID: %q", out)
	}
}

func TestKilledTrainingIsAskedAfterwards(t *testing.T) {
	t.Parallel()
	eachTorch(t, func(t *testing.T, python string) {
		w := newWorld(t)
		run := w.start("memgauge", "run", "--name", "dies", "--", python, script(t, "train.py"), "2000", "1", "0.01")
		until(t, "the training", func() bool { return strings.Contains(run.out.String(), "warm") })
		kill(t, trainerPID(t, run))
		if code := run.wait(t); code != 137 {
			t.Errorf("exit %d, want 137", code)
		}
		if out := w.mg("list", "-a"); !strings.Contains(out, "dies") || !strings.Contains(out, "killed by SIGKILL") {
			t.Errorf("list -a:\n%s", out)
		}
		r := w.do("memgauge", "query", "-f", "csv", "SELECT max(step) >= 5 FROM python.steps")
		if r.code != 0 || !strings.Contains(r.stdout, "true") || !strings.Contains(r.stderr, "dies") {
			t.Errorf("exit %d, %q, %q: want an answer and a line that names the session", r.code, r.stdout, r.stderr)
		}
		if end := w.mg("query", "-f", "csv",
			"SELECT name, text FROM memgauge.events WHERE name = 'end'"); !strings.Contains(end, "killed by SIGKILL") {
			t.Errorf("memgauge.events: %q", end)
		}
	})
}

func TestDataLoaderWorkers(t *testing.T) {
	t.Parallel()
	eachTorch(t, func(t *testing.T, python string) {
		for _, context := range contexts("spawn") {
			w := newWorld(t)
			s := filepath.Join(w.home, "s")
			r := w.do("memgauge", "run", "--session", s, "--", python, script(t, "ddp.py"), context, "40")
			if r.code != 0 || !strings.Contains(r.stdout, " 40\n") {
				t.Fatalf("%s: exit %d\n%s%s", context, r.code, r.stdout, r.stderr)
			}
			if n := w.number(s, "SELECT sum(steps) FROM python.steps"); n != 40 {
				t.Errorf("%s: %v steps, want 40", context, n)
			}
			if n := w.number(s, "SELECT count(DISTINCT pid) FROM python.steps"); n != 1 {
				t.Errorf("%s: steps in %v processes", context, n)
			}
			if strings.Contains(r.stderr, "Warning") {
				t.Errorf("%s: a warning that the bare program doesn't print: %s", context, r.stderr)
			}
		}
	})
}

// contexts are the ways in which workers start; the short lane has one of them.
func contexts(short string) []string {
	if env.InLong() {
		return []string{"fork", "spawn"}
	}
	return []string{short}
}

func TestTorchrun(t *testing.T) {
	t.Parallel()
	eachTorch(t, func(t *testing.T, python string) {
		for _, context := range contexts("fork") {
			w := newWorld(t)
			s := filepath.Join(w.home, "s")
			job := []string{"run", "--session", s, "--", python, "-m", "torch.distributed.run", "--nproc_per_node", "2",
				"--master_addr", "127.0.0.1", "--master_port", env.FreePort(t)}
			if python != env.Torch(t).Path {
				// torch 1.13 on Python 3.11: iterating a Flag leaves zero out, which was its launcher's default for
				// both.
				job = append(job, "--redirects", "0:1,1:1", "--tee", "0:1,1:1", "--log_dir",
					filepath.Join(w.home, "torchrun"))
			}
			r := w.do("memgauge", append(job, script(t, "ddp.py"), context, "30")...)
			if r.code != 0 || strings.Count(r.stdout, "done") != 2 { // torchrun puts lines into each other
				t.Fatalf("%s: exit %d\n%s%s", context, r.code, r.stdout, r.stderr)
			}
			rows := w.rows(s,
				"SELECT rank, sum(steps)::INT n, count(DISTINCT pid) p FROM python.steps GROUP BY rank ORDER BY rank")
			if len(rows) != 2 || rows[0]["rank"] != 0.0 || rows[1]["rank"] != 1.0 || rows[0]["n"] != 30.0 ||
				rows[1]["n"] != 30.0 {
				t.Errorf("%s: %v", context, rows)
			}
			if n := w.number(s, "SELECT max(world_size) FROM python.torch_trace"); n != 2 {
				t.Errorf("%s: world size %v", context, n)
			}
		}
	})
}
