package otlp

import (
	"encoding/binary"
	"math"
	"strconv"
	"time"

	"github.com/memgauge/memgauge/internal/faces/metrics"
)

// message is one of protocol buffers. The numbers of fields are those of opentelemetry/proto/metrics/v1/metrics.proto
// and of what that imports.
type message []byte

// Kinds of fields.
const (
	kindNumber = 0
	kindFixed  = 1
	kindBytes  = 2
)

func (m *message) number(field int, v uint64) {
	*m = binary.AppendUvarint(append(*m, byte(field<<3|kindNumber)), v)
}

func (m *message) fixed(field int, v uint64) {
	*m = binary.LittleEndian.AppendUint64(append(*m, byte(field<<3|kindFixed)), v)
}

func (m *message) text(field int, v string) {
	*m = binary.AppendUvarint(append(*m, byte(field<<3|kindBytes)), uint64(len(v)))
	*m = append(*m, v...)
}

func (m *message) message(field int, v message) { m.text(field, string(v)) }

// attribute is a KeyValue of a text.
func attribute(key, value string) (m message) {
	var text message
	text.text(1, valid(value))
	m.text(1, valid(key))
	m.message(2, text)
	return m
}

const cumulative = 2 // AggregationTemporality

// request is an ExportMetricsServiceRequest. Counters count since began.
func (s *sender) request(r metrics.Reading, began, now time.Time) []byte {
	var resource, scope, of, all message
	for _, a := range s.resource {
		resource.message(1, attribute(a[0], a[1]))
	}
	scope.text(1, "memgauge")
	scope.text(2, s.version)
	of.message(1, scope)
	series := map[*metrics.Metric][]metrics.Sample{}
	for _, x := range r.Samples {
		series[x.Metric] = append(series[x.Metric], x)
	}
	for _, m := range metrics.All {
		if len(series[m]) > 0 {
			of.message(2, aboutMetric(m, r.Session, series[m], began, now))
		}
	}
	all.message(1, resource)
	all.message(2, of)
	var request message
	request.message(1, all)
	return request
}

// aboutMetric is a Metric with its points.
func aboutMetric(m *metrics.Metric, session string, series []metrics.Sample, began, now time.Time) (out message) {
	out.text(1, m.OTel())
	out.text(2, m.Help)
	out.text(3, m.UCUM())
	var data message
	for _, s := range series {
		var point message
		if m.Kind == metrics.Counter {
			point.fixed(2, uint64(began.UnixNano()))
		}
		point.fixed(3, uint64(now.UnixNano()))
		point.fixed(4, math.Float64bits(s.Value))
		point.message(7, attribute("session", session))
		for i, name := range m.Labels {
			point.message(7, attribute(name, s.Values[i]))
		}
		data.message(1, point)
	}
	if m.Kind != metrics.Counter {
		out.message(5, data) // Gauge
		return out
	}
	data.number(2, cumulative)
	data.number(3, 1)    // it never falls
	out.message(7, data) // Sum
	return out
}

// rejected is what an ExportMetricsServiceResponse says was not taken, or why; "" for nothing.
func rejected(answer message) (why string) {
	answer.each(func(field int, _ uint64, partial message) {
		if field != 1 {
			return
		}
		points, text := uint64(0), ""
		partial.each(func(field int, number uint64, bytes message) {
			switch field {
			case 1:
				points = number
			case 2:
				text = string(bytes)
			}
		})
		if points > 0 || text != "" {
			why = strconv.FormatUint(points, 10) + " values were not taken: " + text
		}
	})
	return why
}

// each gives the fields of a message until one is damaged.
func (m message) each(take func(field int, number uint64, bytes message)) {
	for len(m) > 0 {
		tag, n := binary.Uvarint(m)
		if n <= 0 {
			return
		}
		m = m[n:]
		switch tag & 7 {
		case kindNumber:
			v, n := binary.Uvarint(m)
			if n <= 0 {
				return
			}
			m = m[n:]
			take(int(tag>>3), v, nil)
		case kindBytes:
			v, n := binary.Uvarint(m)
			if n <= 0 || v > uint64(len(m)-n) {
				return
			}
			take(int(tag>>3), 0, m[n:n+int(v)])
			m = m[n+int(v):]
		default: // there is none in an answer
			return
		}
	}
}
