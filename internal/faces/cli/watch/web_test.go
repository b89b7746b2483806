package watch

import (
	"bytes"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/memgauge/memgauge/internal/faces/cli/app"
)

// TestAddressOfItsOwn: whoever listened on an address and port earlier may have left something in the browser that gets
// the token of who comes later, so each run has an address that nobody could know before.
func TestAddressOfItsOwn(t *testing.T) {
	a := &commands{&app.App{Stderr: t.Output()}}
	seen := map[string]bool{"127.0.0.1": true}
	for range 8 {
		l, err := a.listen(t.Context(), "")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		ip := l.Addr().(*net.TCPAddr).IP
		if !ip.IsLoopback() || seen[ip.String()] {
			t.Errorf("%s, after %v", ip, seen)
		}
		seen[ip.String()] = true
	}
	l, err := a.listen(t.Context(), "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if host, _, _ := net.SplitHostPort(l.Addr().String()); host != "127.0.0.1" {
		t.Errorf("127.0.0.1 was asked for, and %s listens", host)
	}
}

// TestOpenHidesTheToken: what a browser is started with can be read by every user of the machine, so it names a page of
// the user's own disk.
func TestOpenHidesTheToken(t *testing.T) {
	bin := t.TempDir()
	t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
	t.Setenv("MEMGAUGE_HOME", t.TempDir())
	told := filepath.Join(bin, "told")
	script := "#!/bin/sh\nprintf %s \"$*\" >" + told + "\n"
	if err := os.WriteFile(filepath.Join(bin, "xdg-open"), []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	const address = "http://127.0.0.1:1234/#token=s3cret"
	var stderr bytes.Buffer
	a := &commands{&app.App{Stderr: &stderr}}
	done, err := a.browse(address)
	if err != nil {
		t.Fatal(err)
	}
	line, err := os.ReadFile(told)
	if err != nil || strings.Contains(string(line), "s3cret") {
		t.Fatalf("the browser was started with %q, %v; %s", line, err, &stderr)
	}
	u, err := url.Parse(string(line))
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(u.Path)
	if err != nil || !strings.Contains(string(text), address) {
		t.Errorf("the page is %q, %v", text, err)
	}
	if info, err := os.Stat(u.Path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("its mode is %v, %v", info, err)
	}
	done()
	if _, err := os.Stat(filepath.Dir(u.Path)); !os.IsNotExist(err) {
		t.Errorf("it stays: %v", err)
	}
}

// Nobody waits for who would write a named pipe.
func TestPipesAreNotWaitedFor(t *testing.T) {
	fifo := filepath.Join(t.TempDir(), "fifo")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := readBaseline(fifo); err == nil {
		t.Error("a pipe is a baseline")
	}
	if _, err := (webOptions{tokenFile: fifo}).served(); err == nil {
		t.Error("a pipe is a token")
	}
}
