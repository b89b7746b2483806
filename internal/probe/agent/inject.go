package agent

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"
)

//go:embed inject.py
var injected string

// Request has the settings for an agent that is brought into a running process.
type Request struct {
	Options
	Runtime string // the session's runtime directory, "" where the process can't see or write it
	PID     int    // of the process as we see it, and
	Start   uint64 // its start in clock ticks; both are needed only without Runtime
	Folder  string // where Install has unpacked the agent, "" where the process can't see or write it
}

// Source returns the Python code that brings the agent into a process and starts it there. Without a folder the code
// contains the modules and opens no file. ParseReply reads the value that it leaves in `result`.
func Source(r Request) string {
	folder, sources, kept := path.Join("<memgauge>", Hash(), libPrefix), "", ""
	if texts := modules(); r.Folder == "" {
		sources = literal(texts)
	} else {
		sources = "dict.fromkeys(" + literal(slices.Sorted(maps.Keys(texts))) + ")"
		folder, kept = path.Join(r.Folder, libPrefix), path.Join(r.Folder, "attach")
	}
	request := fmt.Sprintf("{'budget': '%s', 'trace': %s, 'runtime': %s, 'pid': %d, 'start': %d}",
		strconv.FormatFloat(r.Budget, 'g', -1, 64), literal(r.Trace), orNone(r.Runtime), r.PID, r.Start)
	return fmt.Sprintf("FOLDER = %s\nSOURCES = %s\nKEPT = %s\nREQUEST = %s\n%s", literal(folder), sources, orNone(kept),
		request, injected)
}

// modules are the agent's, by their path in the package without ".py".
func modules() map[string]string {
	texts := map[string]string{}
	for name, data := range source() {
		if rest, ok := strings.CutPrefix(name, libPrefix); ok {
			texts[strings.TrimSuffix(rest, path.Ext(rest))] = string(data)
		}
	}
	return texts
}

// orNone is a text in Python, None if there is none.
func orNone(s string) string {
	if s == "" {
		return "None"
	}
	return literal(s)
}

// libPrefix begins the names of the agent's modules.
const libPrefix = "lib/memgauge/"

// literal is a text, or texts in a list or a map, in Python: JSON's strings are Python's too, as long as nothing is
// written as a pair of surrogates, and encoding/json writes no such pairs.
func literal(v any) string {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		panic(err) // texts can be encoded
	}
	return strings.TrimSpace(b.String())
}

// Reply is the result of the injected code.
type Reply struct {
	Observed bool   // an agent was there before, and nothing was done
	Runtime  string // of that agent's session, "" if that can't be told
	Door     int    // descriptor of the door in the process; -1 where the agent has the runtime directory
}

// ErrNoReply means that the injected code has left no valid result.
var ErrNoReply = errors.New("the agent has not reported in")

// ParseReply reads what Source's code left in `result`.
func ParseReply(value string) (Reply, error) {
	kind, rest, _ := strings.Cut(value, "\t")
	switch {
	case kind == "observed":
		return Reply{Observed: true, Runtime: rest, Door: -1}, nil
	case kind == "attached" && rest == "":
		return Reply{Door: -1}, nil
	case kind == "attached":
		if fd, err := strconv.Atoi(rest); err == nil && fd >= 0 {
			return Reply{Door: fd}, nil
		}
	}
	return Reply{}, fmt.Errorf("%w: it said %.200q", ErrNoReply, value)
}
