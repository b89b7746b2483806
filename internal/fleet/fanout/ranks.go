package fanout

import (
	"net/http"

	"github.com/memgauge/memgauge/internal/door/api"
	"github.com/memgauge/memgauge/internal/fleet/skew"
)

// Ranks asks for what ranks held at their steps. Any collector can answer it: it is a statement.
func Ranks() Request {
	return Request{http.MethodPost, "/v1/query", api.QueryRequest{SQL: skew.Session.Statement(), Format: "ndjson"}}
}

// Leak asks for the verdict on every memory of a session.
func Leak() Request { return Request{http.MethodPost, "/v1/leak", api.LeakRequest{}} }
