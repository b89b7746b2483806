package prom

import (
	"bytes"
	"compress/gzip"
	"mime"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/memgauge/memgauge/internal/faces/metrics"
)

// A format is what a scraper may ask for: OpenMetrics, or the older text.
type format struct {
	kind string // its Content-Type
	open bool   // it is OpenMetrics
}

var (
	older       = format{"text/plain; version=0.0.4; charset=utf-8", false}
	openMetrics = format{"application/openmetrics-text; version=1.0.0; charset=utf-8", true}
)

// asked is the format that a scraper likes best.
func asked(h http.Header) format {
	best, of := 0.0, older
	for _, part := range strings.Split(strings.Join(h.Values("Accept"), ","), ",") {
		kind, q, ok := weighed(part)
		switch {
		case !ok || q <= best:
		case kind == "application/openmetrics-text":
			best, of = q, openMetrics
		case kind == "text/plain", kind == "text/*", kind == "*/*":
			best, of = q, older
		}
	}
	return of
}

// weighed reads a part of a header in which a client says what it takes, and how much it likes that.
func weighed(part string) (name string, q float64, ok bool) {
	name, params, err := mime.ParseMediaType(part)
	if err != nil {
		return "", 0, false
	}
	if params["q"] == "" {
		return name, 1, true
	}
	q, err = strconv.ParseFloat(params["q"], 64)
	return name, q, err == nil
}

// answer writes a reading in the format that the scraper asked for, packed if it takes that.
func answer(w http.ResponseWriter, q *http.Request, r metrics.Reading) {
	f := asked(q.Header)
	text := f.text(r)
	w.Header().Set("Content-Type", f.kind)
	w.Header().Set("Vary", "Accept, Accept-Encoding")
	for _, part := range strings.Split(strings.Join(q.Header.Values("Accept-Encoding"), ","), ",") {
		if name, q, ok := weighed(part); ok && name == "gzip" && q > 0 {
			w.Header().Set("Content-Encoding", "gzip")
			out := gzip.NewWriter(w)
			_, _ = out.Write(text) // a scraper that has gone needs no answer
			_ = out.Close()
			return
		}
	}
	_, _ = w.Write(text)
}

// text is a reading; the series of a metric stand together, below what it is.
func (f format) text(r metrics.Reading) []byte {
	series := map[*metrics.Metric][]metrics.Sample{}
	for _, s := range r.Samples {
		series[s.Metric] = append(series[s.Metric], s)
	}
	var out bytes.Buffer
	for _, m := range metrics.All {
		if len(series[m]) == 0 {
			continue
		}
		f.about(&out, m)
		for _, s := range series[m] {
			labels := []string{label("session", r.Session)}
			for i, name := range m.Labels {
				labels = append(labels, label(name, s.Values[i]))
			}
			slices.Sort(labels) // by their names
			value := strconv.FormatFloat(s.Value, 'g', -1, 64)
			out.WriteString(m.Prom() + "{" + strings.Join(labels, ",") + "} " + value + "\n")
		}
	}
	if f.open {
		out.WriteString("# EOF\n")
	}
	return out.Bytes()
}

// quoted escapes what stands between quotes, plain what stands behind HELP in the older text.
var (
	quoted = strings.NewReplacer(`\`, `\\`, "\n", `\n`, `"`, `\"`)
	plain  = strings.NewReplacer(`\`, `\\`, "\n", `\n`)
)

func label(name, value string) string {
	return name + `="` + quoted.Replace(strings.ToValidUTF8(value, "\uFFFD")) + `"`
}

func (f format) about(out *bytes.Buffer, m *metrics.Metric) {
	name, kind, help := m.Prom(), metrics.Gauge, plain
	if m.Kind == metrics.Counter {
		kind = metrics.Counter
	}
	if f.open {
		name, help = strings.TrimSuffix(name, "_total"), quoted
	}
	out.WriteString("# HELP " + name + " " + help.Replace(m.Help) + "\n# TYPE " + name + " " + string(kind) + "\n")
	if f.open && m.Unit != "" {
		out.WriteString("# UNIT " + name + " " + m.Unit + "\n")
	}
}
