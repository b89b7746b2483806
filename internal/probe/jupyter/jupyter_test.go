package jupyter

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/memgauge/memgauge/internal/base/remedy"
)

func TestChoose(t *testing.T) {
	all := []Kernel{{PID: 1, Notebook: "/w/a/same.ipynb"}, {PID: 2, Notebook: "/w/b/same.ipynb"},
		{PID: 3, Notebook: "/w/one.ipynb"}, {PID: 4}}
	for name, pid := range map[string]int{"one.ipynb": 3, "a/same.ipynb": 1, "/w/b/same.ipynb": 2} {
		if k, err := choose(all, 0, name); err != nil || k.PID != pid {
			t.Errorf("%s: kernel %d, %v; want %d", name, k.PID, err, pid)
		}
	}
	if _, err := choose(all, 0, "same.ipynb"); err == nil ||
		!strings.Contains(remedy.Of(err), "1 /w/a/same.ipynb, 2 /w/b") {
		t.Errorf("two of one name: %v, hint %q", err, remedy.Of(err))
	}
	_, err := choose(all, 2, "ne.ipynb")
	if hint := remedy.Of(err); !errors.Is(err, ErrNoKernel) ||
		!strings.Contains(hint, "3 /w/one.ipynb, 4 of a notebook") ||
		!strings.Contains(hint, "2 of other users") {
		t.Errorf("none: %v, hint %q", err, hint)
	}
}

// A server names the notebooks of its kernels; the runtime file of one that has ended, or of who is not this user, is
// passed by, as is an address that is not loopback.
func TestServers(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/base/api/sessions" || r.Header.Get("Authorization") != "token secret" {
			http.Error(w, "no", http.StatusForbidden)
			return
		}
		_, _ = w.Write([]byte(`[{"path": "dir/new.ipynb", "kernel": {"id": "k1"}}, {"path": "console", "kernel": {}}]`))
	}))
	defer server.Close()
	for _, c := range []struct {
		name, url string
		pid       int
		want      string
	}{
		{"its own", server.URL + "/base/", os.Getpid(), "/n/dir/new.ipynb"},
		{"ended", server.URL + "/base/", 1 << 30, "/n/old.ipynb"},
		{"far away", "http://192.0.2.1:8888/base/", os.Getpid(), "/n/old.ipynb"},
		{"refuses", server.URL + "/other/", os.Getpid(), "/n/old.ipynb"},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			t.Setenv("HOME", dir)
			text, err := json.Marshal(map[string]any{"url": c.url, "token": "secret", "root_dir": "/n",
				"pid": c.pid})
			if err == nil {
				err = os.WriteFile(filepath.Join(dir, "jpserver-1.json"), text, 0o600)
			}
			if err != nil {
				t.Fatal(err)
			}
			kernels := []Kernel{{PID: 5, Notebook: "/n/old.ipynb", id: "k1", runtime: dir}}
			ask(t.Context(), kernels)
			if kernels[0].Notebook != c.want {
				t.Errorf("notebook %s, want %s", kernels[0].Notebook, c.want)
			}
		})
	}
}
