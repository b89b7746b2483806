package api

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"path"
	"runtime"
	"runtime/debug"
	"strings"
	"sync/atomic"

	"github.com/memgauge/memgauge/internal/base/remedy"
)

// Catcher answers for handlers that panic: whoever asked gets an error that says where the bug is, the log gets the
// stack, and the process goes on. Without it net/http ends the connection without a word, and where a handler is called
// without net/http the process ends.
type Catcher struct {
	log *slog.Logger
	n   atomic.Int64
}

// NewCatcher makes one that writes to a log.
func NewCatcher(log *slog.Logger) *Catcher { return &Catcher{log: log} }

const (
	maxStack = 8 << 10 // bytes of a stack in the log: some 60 calls
	maxValue = 512     // bytes of what was said: a conversion that fails may name the value of a row
)

// Wrap is a handler whose panics are caught. What was sent of an answer already stays; its end says that it is none.
func (c *Catcher) Wrap(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		seen := &seen{ResponseWriter: w}
		defer func() {
			v := recover()
			if v == nil {
				return
			}
			if v == http.ErrAbortHandler {
				panic(v) // a word to net/http, no bug
			}
			err := c.bug(r.URL.Path, cut(fmt.Sprint(v), maxValue))
			if !seen.begun {
				patient(w)
				w.Header().Set("Content-Type", "application/json")
				w.WriteHeader(http.StatusInternalServerError)
				_ = json.NewEncoder(w).Encode(Pack(err)) // the client may be gone
			} else if text, e := json.Marshal(Pack(err)); e == nil {
				w.Header().Set(errorTrailer, string(text))
			}
		}()
		h.ServeHTTP(seen, r)
	})
}

// bug logs a panic, ever more seldom, and says what is told to who asked. The caller is the function that recovers.
func (c *Catcher) bug(of, said string) error {
	where := place()
	if n := c.n.Add(1); n&(n-1) == 0 {
		stack := debug.Stack()
		c.log.Error("a bug: a question's handler has panicked", "question", cut(of, maxValue), "says", said,
			"at", where, "so far", n, "stack", string(stack[:min(len(stack), maxStack)]))
	}
	return remedy.Add(fmt.Errorf("a bug of memgauge, at %s: %s", where, said),
		"report it with this line; the log of the process that answered has more: a session's collector.log, a "+
			"node's or hub's own")
}

// place is where the panic began: the innermost call that is not the runtime's, below the calls that recover.
func place() string {
	var pcs [64]uintptr
	frames := runtime.CallersFrames(pcs[:runtime.Callers(1, pcs[:])])
	for panicked := false; ; {
		f, more := frames.Next()
		switch {
		case f.Function == "runtime.gopanic":
			panicked = true
		case panicked && !strings.HasPrefix(f.Function, "runtime."):
			return fmt.Sprintf("%s (%s:%d)", path.Base(f.Function), path.Base(f.File), f.Line)
		}
		if !more {
			return "an unknown place"
		}
	}
}

func cut(s string, most int) string {
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "…"
}

// seen notes whether an answer has begun.
type seen struct {
	http.ResponseWriter
	begun bool
}

// WriteHeader begins it.
func (s *seen) WriteHeader(status int) {
	s.begun = true
	s.ResponseWriter.WriteHeader(status)
}

// Write begins it too.
func (s *seen) Write(b []byte) (int, error) {
	s.begun = true
	return s.ResponseWriter.Write(b)
}

// Unwrap lets http.ResponseController find the connection's own.
func (s *seen) Unwrap() http.ResponseWriter { return s.ResponseWriter }
