package lake

import (
	"bytes"
	"encoding/json"
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/minio/minio-go/v7"

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

// TestOneWriterInS3: a second writer of a bucket's prefix is refused while the first lives, also one that comes just as
// the lease of one that was killed has ended; the first notices if another has taken over.
func TestOneWriterInS3(t *testing.T) {
	gateway(t)
	at := Options{Location: "s3://lake/training/one"}
	first := writer(t, at)
	if _, err := New(t.Context(), at); err == nil || !strings.Contains(err.Error(), "another process writes") {
		t.Errorf("a second writer: %v", err)
	}
	other := writer(t, Options{Location: "s3://lake/training/two"})
	if err := errors.Join(other.Close(), first.Close()); err != nil {
		t.Fatal(err)
	}
	first = writer(t, at) // it was given back
	defer first.Close()
	b := first.place.(*bucket)
	dead, _ := json.Marshal(lease{ownLease().Host, ownLease().Boot, 1 << 30, time.Now()}) // no pid is so high
	if _, err := b.client.PutObject(t.Context(), b.name, b.prefix+leaseName, bytes.NewReader(dead), int64(len(dead)),
		minio.PutObjectOptions{}); err != nil {
		t.Fatal(err)
	}
	next := writer(t, at)
	defer next.Close()
	b.held.at = time.Time{} // it is time to renew
	if _, err := first.Maintain(t.Context()); err == nil || !strings.Contains(err.Error(), "another process writes") {
		t.Errorf("the writer that was taken for dead: %v", err)
	}
	next.place.(*bucket).held.at = time.Time{}
	if _, err := next.Maintain(t.Context()); err != nil {
		t.Error(err)
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
