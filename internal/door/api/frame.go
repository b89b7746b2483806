package api

import (
	"encoding/json"
	"net/http"
	"sync"
)

// frame is a line of a streamed reply: one of its fields is set. The last frame is Done or an error.
type frame struct {
	Chosen []Process       `json:"chosen,omitempty"`
	Output *output         `json:"output,omitempty"`
	Event  *Event          `json:"event,omitempty"`
	Bytes  []byte          `json:"bytes,omitempty"`
	Done   bool            `json:"done,omitempty"`
	Reply  json.RawMessage `json:"reply,omitempty"` // with Done
	Error  *Error          `json:"error,omitempty"`
}

// output is what code printed.
type output struct {
	Process int    `json:"process"` // place in Chosen
	Stderr  bool   `json:"stderr,omitempty"`
	Text    []byte `json:"text"`
}

// frames writes a streamed reply and flushes each frame, so that the reader gets it at once.
type frames struct {
	w   http.ResponseWriter
	enc *json.Encoder
}

func newFrames(w http.ResponseWriter) *frames {
	w.Header().Set("Content-Type", "application/x-ndjson")
	return &frames{w, json.NewEncoder(w)}
}

func (f *frames) send(v frame) error {
	patient(f.w)
	if err := f.enc.Encode(v); err != nil {
		return err
	}
	return http.NewResponseController(f.w).Flush()
}

// end writes the last frame, with the reply or the error.
func (f *frames) end(reply any, err error) {
	last := frame{Done: true}
	if err == nil {
		last.Reply, err = json.Marshal(reply)
	}
	if err != nil {
		last = frame{Error: Pack(err)}
	}
	_ = f.send(last) // the client may be gone
}

// Write sends bytes as a frame, so that a file can be copied into an answer.
func (f *frames) Write(b []byte) (int, error) {
	if err := f.send(frame{Bytes: b}); err != nil {
		return 0, err
	}
	return len(b), nil
}

// InterruptRequest interrupts the eval with that key.
type InterruptRequest struct {
	Key string `json:"key"`
}

// Evals are the running evals that can be interrupted, by key. Handlers of one session that live for a request only
// share them: an InterruptRequest is another request.
type Evals struct {
	mu   sync.Mutex
	stop map[string]func()
}

func (r *Evals) add(key string, stop func()) (remove func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.stop == nil {
		r.stop = map[string]func(){}
	}
	r.stop[key] = stop
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.stop, key)
	}
}

func (r *Evals) interrupt(key string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if stop := r.stop[key]; stop != nil {
		stop()
	}
}
