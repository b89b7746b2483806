package jupyter

import (
	"context"
	"encoding/json"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

const (
	serverTimeout = 2 * time.Second // a server on this machine answers in milliseconds; a busy one not at all
	maxAnswer     = 4 << 20         // bytes of a list of notebooks: some thousand
)

// server is what a Jupyter server's runtime file tells: jpserver-PID.json, or nbserver-PID.json of old ones.
type server struct {
	PID      int    `json:"pid"`
	URL      string `json:"url"`
	Token    string `json:"token"`
	Root     string `json:"root_dir"`
	Notebook string `json:"notebook_dir"` // of old ones
}

// session is a notebook of a server's with its kernel.
type session struct {
	Path   string `json:"path"`
	Kernel struct {
		ID string `json:"id"`
	} `json:"kernel"`
}

// ask has the servers of this user name the notebooks of the kernels: a notebook may have been renamed since its kernel
// began. A server that doesn't answer is passed by; what the environment says then stands.
func ask(ctx context.Context, kernels []Kernel) {
	names := map[string]string{}
	for _, s := range servers(kernels) {
		for _, open := range s.sessions(ctx) {
			if strings.HasSuffix(open.Path, Extension) {
				names[open.Kernel.ID] = filepath.Join(s.Root+s.Notebook, open.Path)
			}
		}
	}
	for i, k := range kernels {
		if name := names[k.id]; name != "" {
			kernels[i].Notebook = name
		}
	}
}

// servers reads the runtime files beside the kernels' connection files and in the places where Jupyter keeps them.
// Files of servers that have ended stay behind, so the process must live, and be ours.
func servers(kernels []Kernel) (all []server) {
	seen := map[string]bool{}
	for _, dir := range append(runtimeDirs(), dirsOf(kernels)...) {
		if seen[dir] {
			continue
		}
		seen[dir] = true
		for _, pattern := range []string{"jpserver-*.json", "nbserver-*.json"} {
			files, _ := filepath.Glob(filepath.Join(dir, pattern)) // the pattern is well-formed
			for _, file := range files {
				if s, ok := readServer(file); ok && len(all) < maxServers {
					all = append(all, s)
				}
			}
		}
	}
	return all
}

func dirsOf(kernels []Kernel) (dirs []string) {
	for _, k := range kernels {
		if filepath.IsAbs(k.runtime) {
			dirs = append(dirs, k.runtime)
		}
	}
	return dirs
}

// runtimeDirs are where jupyter_core.paths.jupyter_runtime_dir puts such files.
func runtimeDirs() (dirs []string) {
	if dir := os.Getenv("JUPYTER_RUNTIME_DIR"); dir != "" {
		dirs = append(dirs, dir)
	}
	if dir := os.Getenv("JUPYTER_DATA_DIR"); dir != "" {
		dirs = append(dirs, filepath.Join(dir, "runtime"))
	}
	if dir := os.Getenv("XDG_DATA_HOME"); dir != "" {
		dirs = append(dirs, filepath.Join(dir, "jupyter", "runtime"))
	}
	if home, err := os.UserHomeDir(); err == nil {
		dirs = append(dirs, filepath.Join(home, ".local", "share", "jupyter", "runtime"))
	}
	return dirs
}

// readServer reads a runtime file of this user's whose server lives. Another user could have us ask anybody.
func readServer(path string) (s server, ok bool) {
	file, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return s, false
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil || !info.Mode().IsRegular() || !mine(info) {
		return s, false
	}
	if err := json.NewDecoder(io.LimitReader(file, maxFile)).Decode(&s); err != nil || s.PID <= 0 {
		return s, false
	}
	process, err := os.Stat(filepath.Join("/proc", strconv.Itoa(s.PID)))
	return s, err == nil && mine(process)
}

// sessions asks the server what is open. Its token goes to loopback alone.
func (s server) sessions(ctx context.Context) (list []session) {
	address, err := url.Parse(s.URL)
	if err != nil || address.Scheme != "http" || !loopback(address.Hostname()) {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, serverTimeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address.JoinPath("api", "sessions").String(), nil)
	if err != nil {
		return nil
	}
	if s.Token != "" {
		request.Header.Set("Authorization", "token "+s.Token)
	}
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}, // and no proxy
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	answer, err := client.Do(request)
	if err != nil {
		return nil
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK ||
		json.NewDecoder(io.LimitReader(answer.Body, maxAnswer)).Decode(&list) != nil {
		return nil
	}
	return list
}

func loopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

func uid(info fs.FileInfo) int {
	if s, ok := info.Sys().(*syscall.Stat_t); ok {
		return int(s.Uid)
	}
	return -1
}

func mine(info fs.FileInfo) bool { return uid(info) == os.Geteuid() }

// ours reports whether this user may see into a process: root may into all.
func ours(info fs.FileInfo) bool { return mine(info) || os.Geteuid() == 0 }
