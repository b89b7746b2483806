package lake

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/memgauge/memgauge/test/env"
)

// A lake in S3 keeps rows once as one in a directory does; the service is a real one over a directory.
func TestRowsOnceInS3(t *testing.T) {
	gateway(t)
	t.Setenv("MEMGAUGE_HOME", t.TempDir())
	rowsOnce(t, "s3://lake/training/a")
	if _, err := New(t.Context(), Options{Location: "s3://none"}); err == nil {
		t.Error("a bucket that there is not")
	}
}

// gateway starts the service with one bucket, and points the environment at it.
func gateway(t *testing.T) {
	t.Helper()
	program := env.Versitygw(t)
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "data", "lake"), 0o700); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	at := l.Addr().String()
	l.Close()
	cmd := exec.Command(program, "--access", "tester", "--secret", "testersecret", "--port", at, "posix",
		"--sidecar", filepath.Join(dir, "meta"), filepath.Join(dir, "data"))
	if err := os.MkdirAll(filepath.Join(dir, "meta"), 0o700); err != nil {
		t.Fatal(err)
	}
	log, err := os.Create(filepath.Join(dir, "log"))
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Signal(syscall.SIGTERM); _ = cmd.Wait() })
	for until := time.Now().Add(30 * time.Second); ; {
		c, err := net.DialTimeout("tcp", at, time.Second)
		if err == nil {
			c.Close()
			break
		}
		if time.Now().After(until) {
			text, _ := os.ReadFile(log.Name())
			t.Fatalf("the S3 service does not answer: %v\n%s", err, text)
		}
		time.Sleep(20 * time.Millisecond) // it tells nobody when it listens
	}
	for name, value := range map[string]string{"AWS_ENDPOINT_URL": "http://" + at, "AWS_ACCESS_KEY_ID": "tester",
		"AWS_SECRET_ACCESS_KEY": "testersecret", "AWS_REGION": "us-east-1"} {
		t.Setenv(name, value)
	}
}
