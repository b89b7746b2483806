package e2e

import (
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/memgauge/memgauge/test/env"
)

// A server of FastAPI that is attached to while it serves: who keeps its answers is named with the line, by request;
// one that keeps the last two hundred is no leak at any judgement.
func TestFastAPI(t *testing.T) {
	env.Long(t, "servers: FastAPI under a client for a minute and more")
	t.Parallel()
	python, server := env.Serving(t).Path, script(t, "fastapi_server.py")
	t.Run("keeps all answers", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		b := w.begin(w.command(python, server, "leak", "20000", "60"))
		number := strconv.Itoa(b.Process.Pid)
		session := w.attach(b.Process.Pid)
		for told := false; !told; time.Sleep(time.Second) {
			select {
			case <-b.done:
				t.Fatalf("20,000 requests, and no leak:\n%s%s", w.do("memgauge", session, "leak").stdout, b.err)
			default:
				r := w.do("memgauge", session, "leak")
				told = strings.HasPrefix(r.stdout, "LEAK") &&
					strings.Contains(r.stdout, "held by   __main__.responses")
				if told && (r.code != 3 || !strings.Contains(r.stdout, " KiB/request (") ||
					!strings.Contains(r.stdout, "fastapi_server.py:26\n") ||
					!strings.Contains(r.stdout, " requests/s")) {
					t.Errorf("exit %d\n%s", r.code, r.stdout)
				}
			}
		}
		if got := w.mg("doctor", number); !strings.Contains(got, "counts requests of uvicorn") {
			t.Errorf("doctor says\n%s", got)
		}
	})
	t.Run("keeps the last ones", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		b := w.begin(w.command(python, server, "lru", "4800", "80"))
		session := w.attach(b.Process.Pid)
		<-b.done
		if n := w.ask(session, "SELECT count(*) FROM memgauge.findings WHERE verdict = 'leak'"); n != "0" {
			t.Errorf("%s leaks were told\n%s", n, w.do("memgauge", session, "leak").stdout)
		}
		n, _ := strconv.Atoi(w.ask(session, "SELECT max(step) FROM python.steps WHERE kind = 'request'"))
		if n < 1000 {
			t.Errorf("%d requests were counted\n%s", n, b.err)
		}
	})
}

// Calls of generate() of transformers count, with the tokens that they made.
func TestGenerateCounts(t *testing.T) {
	env.Long(t, "servers: transformers")
	t.Parallel()
	w := newWorld(t)
	session := filepath.Join(w.home, "s")
	r := w.do("memgauge", "run", "--session", session, "--", env.Serving(t).Path, script(t, "generate.py"))
	if r.code != 0 {
		t.Fatalf("exit %d\n%s%s", r.code, r.stdout, r.stderr)
	}
	got := w.mg("query", "--session", session, "-f", "csv",
		"SELECT sum(steps)::INT, sum(tokens)::INT FROM python.steps WHERE kind = 'infer' AND NOT inference")
	if !strings.HasSuffix(strings.TrimSpace(got), "40,560") {
		t.Errorf("calls and tokens are\n%s", got)
	}
}
