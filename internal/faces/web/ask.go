package web

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/http"
	"time"

	"github.com/memgauge/memgauge/internal/door/api"
)

// formats are those of a query's answer, with their MIME types.
var formats = map[string]string{"ndjson": "application/x-ndjson", "csv": "text/csv; charset=utf-8",
	"parquet": "application/vnd.apache.parquet"}

const queryLimit = 5 * time.Minute

// query streams an answer. One that fails after it has begun ends with a broken connection, so that the page never
// takes half an answer for a whole one.
func (s *Server) query(w http.ResponseWriter, r *http.Request) {
	var q struct{ SQL, Format string }
	if err := json.NewDecoder(r.Body).Decode(&q); err != nil {
		reply(w, nil, err)
		return
	}
	kind, ok := formats[q.Format]
	if !ok {
		reply(w, nil, errors.New("query: the format is none of ndjson, csv, parquet"))
		return
	}
	out := &begun{w: w, kind: kind}
	err := s.doors.through(r.Context(), r.PathValue("id"), func(d *door) error {
		return d.Query(r.Context(), api.QueryRequest{SQL: q.SQL, Format: q.Format, Timeout: queryLimit}, out)
	})
	switch {
	case err != nil && out.some:
		panic(http.ErrAbortHandler)
	case err != nil:
		reply(w, nil, err)
	case !out.some:
		w.Header().Set("Content-Type", kind)
	}
}

// begun notes whether an answer has begun, and gives its reader time for each piece.
type begun struct {
	w    http.ResponseWriter
	kind string
	some bool
}

func (b *begun) Write(p []byte) (int, error) {
	if !b.some {
		b.some = true
		b.w.Header().Set("Content-Type", b.kind)
	}
	_ = http.NewResponseController(b.w).SetWriteDeadline(time.Now().Add(writePatience))
	return b.w.Write(p)
}

const (
	evalLimit = 10 * time.Second
	// maxOutput bounds what a page shows of what code prints.
	maxOutput = 1 << 20
)

// said is what came of an eval.
type said struct {
	Output    string           `json:"output"`
	Cut       bool             `json:"cut"` // there was more output
	Results   []api.EvalResult `json:"results"`
	Failure   *api.Error       `json:"failure"`
	Exception string           `json:"exception"`
	Value     string           `json:"value"`
}

// eval runs code in a live process.
func (s *Server) eval(w http.ResponseWriter, r *http.Request) {
	var q struct {
		Code string `json:"code"`
		PID  int    `json:"pid"`
	}
	if err := json.NewDecoder(r.Body).Decode(&q); err != nil {
		reply(w, nil, err)
		return
	}
	d, err := s.doors.enter(r.Context(), r.PathValue("id"))
	if err != nil {
		reply(w, nil, err)
		return
	}
	var out bytes.Buffer
	answer := said{}
	got, err := d.Eval(r.Context(), api.EvalRequest{Code: q.Code, Choice: api.Choice{PID: q.PID}, Place: api.Main,
		Timeout: evalLimit}, api.EvalOutput{Print: func(_ int, _ bool, text []byte) error {
		if room := maxOutput - out.Len(); len(text) > room {
			text, answer.Cut = text[:room], true
		}
		out.Write(text)
		return nil
	}})
	s.doors.leave(d)
	answer.Output, answer.Results = out.String(), got.Results
	for i := range got.Results {
		x := &got.Results[i]
		answer.Value, answer.Exception = x.Value, x.Exception
		if failed := x.Failure(evalLimit); failed != nil && !errors.Is(failed, api.ErrException) {
			answer.Failure = api.Pack(failed)
		}
	}
	reply(w, answer, err)
}
