package cli

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/memgauge/memgauge/internal/door/api"
	"github.com/memgauge/memgauge/internal/door/ask"
	"github.com/memgauge/memgauge/internal/faces/cli/app"
)

// says is a session far away that answers everything with the same document.
type says string

func (s says) RoundTrip(*http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: http.StatusOK, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{}, Body: io.NopCloser(strings.NewReader(string(s)))}, nil
}

// asked runs a command for such a session.
func (s says) asked(t *testing.T, args ...string) (out, errs string, code int) {
	t.Helper()
	t.Chdir(t.TempDir())
	var stdout, stderr bytes.Buffer
	a := &app.App{Stdin: strings.NewReader(""), Stdout: &stdout, Stderr: &stderr, Families: families}
	far := ask.Far(api.About{ID: "x", Name: "x", Live: true}, -1, func() api.Session { return api.NewClientOver(s) })
	a.Far = &far
	root := a.RootCommand()
	root.SetArgs(args)
	code = a.Report(root.ExecuteContext(t.Context()))
	return stdout.String(), stderr.String(), code
}

// TestStrangersDocuments: an answer that lacks what honest ones have, or names what there is not, ends no command.
func TestStrangersDocuments(t *testing.T) {
	const done = `{"done":true,"reply":{"results":[{},{}]}}`
	for _, document := range []says{``, `null`, `{}`, `[]`, `[{}]`, `{"processes":[{}]}`, `{"censuses":[{}]}`,
		`{"done":true,"reply":{}}`, done, `{"output":{"process":1,"text":"eA=="}}` + done,
		`{"chosen":[{}]}{"output":{"process":-1,"text":"eA=="}}` + done, `{"chosen":[{}]}` + done} {
		for _, command := range []string{"backtrace", "backtrace --json", "eval 1", "eval --all 1", "eval --json 1",
			"leak", "leak --json", "tensors", "tensors --census", "where", "where --json", "tables", "query SELECT",
			"report", "fragment --json", "native", "snapshot take -o out", "snapshot record --on"} {
			document.asked(t, strings.Fields(command)...)
		}
	}
}

// TestFarIsNotThisMachine: a command about a session far away never answers about the machine that asks.
func TestFarIsNotThisMachine(t *testing.T) {
	for _, command := range []string{"oom --json --duration 1", "monitor --json --duration 1"} {
		out, errs, code := says(`{"id":"x","name":"x","live":true}`).asked(t, strings.Fields(command)...)
		var report struct {
			Session *string `json:"session"`
		}
		if json.Unmarshal([]byte(out), &report) != nil || report.Session == nil {
			t.Errorf("%s: %d %s%s", command, code, out, errs)
		}
	}
}
