package lake

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"
)

// TestFileSystemThatDoesNotAnswer: who opens a lake there is told the name at which it stands, or is gone when called
// off; what comes of it later is given up.
func TestFileSystemThatDoesNotAnswer(t *testing.T) {
	before := patience
	defer func() { patience = before }()
	patience = 10 * time.Millisecond
	called, cancel := context.WithCancel(t.Context())
	cancel()
	for _, ctx := range []context.Context{t.Context(), called} {
		answers, gone := make(chan bool), make(chan int)
		p := &progress{}
		p.reached("/lake/steps/x.parquet")
		if ctx == called {
			p.never()
		}
		_, err := patiently(ctx, p, func() (int, error) { <-answers; return 7, nil }, func(n int) { gone <- n })
		if ctx == called && !errors.Is(err, context.Canceled) ||
			ctx != called && (err == nil || !strings.Contains(err.Error(), "/lake/steps/x.parquet")) {
			t.Error(err)
		}
		close(answers)
		if n := <-gone; n != 7 {
			t.Errorf("%d was given up", n)
		}
	}
	patience = time.Hour
	p := &progress{}
	p.reached("x")
	n, err := patiently(t.Context(), p, func() (int, error) { return 5, nil }, func(int) {})
	if n != 5 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
}

// TestNamesReached: a reader of a directory notes each file before it reads it.
func TestNamesReached(t *testing.T) {
	dir, _ := filled(t)
	p, err := openPlace(t.Context(), dir, false)
	if err != nil {
		t.Fatal(err)
	}
	defer p.close()
	reads := &progress{}
	p.(*directory).reads = reads
	files, _, err := choose(t.Context(), p, Choice{Location: dir})
	if at := reads.at.Load(); err != nil || at == nil || !strings.HasPrefix(at.name, dir) {
		t.Fatalf("%+v, %v", at, err)
	}
	if _, err := viewsOf(t.Context(), p, files, dir, nil, Choice{Location: dir}); err != nil {
		t.Fatal(err)
	}
	at := reads.at.Load()
	if !strings.HasPrefix(at.name, dir+"/steps/date=") || !strings.HasSuffix(at.name, ".parquet") {
		t.Errorf("%+v", at)
	}
}
