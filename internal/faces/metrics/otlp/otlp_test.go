package otlp

import (
	"compress/gzip"
	"context"
	"encoding/pem"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	collected "go.opentelemetry.io/proto/otlp/collector/metrics/v1"
	common "go.opentelemetry.io/proto/otlp/common/v1"
	sent "go.opentelemetry.io/proto/otlp/metrics/v1"
	"google.golang.org/protobuf/proto"

	"github.com/memgauge/memgauge/internal/door/api"
	"github.com/memgauge/memgauge/internal/faces/metrics"
	"github.com/memgauge/memgauge/test/env"
	"github.com/memgauge/memgauge/test/fakesession"
)

func TestMain(m *testing.M) { env.Leftovers(m) }

func texts(list []*common.KeyValue) map[string]string {
	out := map[string]string{}
	for _, a := range list {
		out[a.GetKey()] = a.GetValue().GetStringValue()
	}
	return out
}

// TestRequest: by the protocol's own definitions a request has every series of a reading, with its labels, unit and
// kind, and no field that they do not know.
func TestRequest(t *testing.T) {
	r := metrics.Reading{Session: "job \xff"}
	for i, m := range metrics.All {
		for k := range 2 {
			values := make([]string, len(m.Labels))
			for j, name := range m.Labels {
				values[j] = fmt.Sprint(name, k, strings.Repeat("ö", 100*k))
			}
			value := float64(i) - 0.5 + float64(k)
			r.Samples = append(r.Samples, metrics.Sample{Metric: m, Values: values, Value: value})
		}
	}
	began, now := time.Unix(1, 2), time.Unix(3, 4)
	s := &sender{version: "1.2", resource: [][2]string{{serviceName, "memgauge"}, {"host.name", "h"}}}
	var got collected.ExportMetricsServiceRequest
	if err := proto.Unmarshal(s.request(r, began, now), &got); err != nil {
		t.Fatal(err)
	}
	of := got.GetResourceMetrics()[0]
	scope := of.GetScopeMetrics()[0]
	attributes := map[string]string{serviceName: "memgauge", "host.name": "h"}
	if !maps.Equal(texts(of.GetResource().GetAttributes()), attributes) ||
		scope.GetScope().GetName() != "memgauge" || scope.GetScope().GetVersion() != "1.2" ||
		len(scope.GetMetrics()) != len(metrics.All) {
		t.Errorf("%v of %v, %d metrics", of.GetResource(), scope.GetScope(), len(scope.GetMetrics()))
	}
	for i, m := range metrics.All {
		x := scope.GetMetrics()[i]
		points := x.GetGauge().GetDataPoints()
		if m.Kind == metrics.Counter {
			points = x.GetSum().GetDataPoints()
			if !x.GetSum().GetIsMonotonic() || x.GetSum().GetAggregationTemporality() !=
				sent.AggregationTemporality_AGGREGATION_TEMPORALITY_CUMULATIVE ||
				points[0].GetStartTimeUnixNano() != uint64(began.UnixNano()) {
				t.Errorf("%s: %v", m.OTel(), x.GetSum())
			}
		}
		if x.GetName() != m.OTel() || x.GetUnit() != m.UCUM() || x.GetDescription() != m.Help || len(points) != 2 {
			t.Fatalf("%s is %v", m.OTel(), x)
		}
		for k, p := range points {
			want := map[string]string{"session": "job \uFFFD"}
			for j, name := range m.Labels {
				want[name] = r.Samples[2*i+k].Values[j]
			}
			if p.GetAsDouble() != r.Samples[2*i+k].Value || !maps.Equal(texts(p.GetAttributes()), want) ||
				p.GetTimeUnixNano() != uint64(now.UnixNano()) || len(p.ProtoReflect().GetUnknown()) > 0 {
				t.Errorf("%s: %v", m.OTel(), p)
			}
		}
	}
	if len(got.ProtoReflect().GetUnknown())+len(scope.ProtoReflect().GetUnknown()) > 0 {
		t.Error("it has fields of no meaning")
	}
}

// TestRejected reads what receivers say of values that they did not take.
func TestRejected(t *testing.T) {
	for _, c := range []struct {
		partial *collected.ExportMetricsPartialSuccess
		want    string
	}{
		{nil, ""}, {&collected.ExportMetricsPartialSuccess{}, ""},
		{&collected.ExportMetricsPartialSuccess{RejectedDataPoints: 300, ErrorMessage: "too old"},
			"300 values were not taken: too old"},
	} {
		text, err := proto.Marshal(&collected.ExportMetricsServiceResponse{PartialSuccess: c.partial})
		if err != nil {
			t.Fatal(err)
		}
		if got := rejected(text); got != c.want {
			t.Errorf("%v: %q", c.partial, got)
		}
	}
}

func FuzzRejected(f *testing.F) {
	f.Add([]byte("\x0a\x05\x08\x01\x12\x01x"))
	f.Fuzz(func(_ *testing.T, text []byte) { rejected(text) })
}

// TestEnvironment: headers, authorities, packing and attributes come from OpenTelemetry's variables; those for metrics
// come first.
func TestEnvironment(t *testing.T) {
	var mu sync.Mutex
	var headers http.Header
	var resource map[string]string
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		headers = q.Header
		body, err := gzip.NewReader(q.Body)
		var text []byte
		if err == nil {
			text, err = io.ReadAll(body)
		}
		var got collected.ExportMetricsServiceRequest
		if err == nil {
			err = proto.Unmarshal(text, &got)
		}
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		resource = texts(got.GetResourceMetrics()[0].GetResource().GetAttributes())
	}))
	defer server.Close()
	cert := filepath.Join(t.TempDir(), "ca.pem")
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	if err := os.WriteFile(cert, text, 0o600); err != nil {
		t.Fatal(err)
	}
	send := func() error {
		ctx, cancel := context.WithCancel(t.Context())
		cancel() // once
		source := metrics.NewSource(func(context.Context) (api.Session, error) { return fakesession.Finished(t), nil })
		defer source.Close()
		return Send(ctx, source, Options{URL: server.URL, Interval: time.Hour, Version: "1.2", Sent: func(error) {}})
	}
	t.Setenv("OTEL_EXPORTER_OTLP_COMPRESSION", "gzip")
	if err := send(); err == nil || !strings.Contains(err.Error(), "certificate") {
		t.Errorf("an authority that nobody knows: %v", err)
	}
	t.Setenv("OTEL_EXPORTER_OTLP_CERTIFICATE", cert)
	t.Setenv("OTEL_EXPORTER_OTLP_HEADERS", "authorization=none")
	t.Setenv("OTEL_EXPORTER_OTLP_METRICS_HEADERS", "authorization=Bearer%20x, x-scope=a=b")
	t.Setenv("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment=lab,service.name=other")
	if err := send(); err != nil {
		t.Fatal(err)
	}
	mu.Lock()
	defer mu.Unlock()
	if headers.Get("Authorization") != "Bearer x" || headers.Get("X-Scope") != "a=b" ||
		headers.Get("Content-Type") != "application/x-protobuf" {
		t.Errorf("headers %v", headers)
	}
	if !maps.Equal(resource, map[string]string{serviceName: "memgauge", serviceVersion: "1.2",
		"deployment.environment": "lab"}) {
		t.Errorf("resource %v", resource)
	}
	for name, value := range map[string]string{"HEADERS": "secret", "COMPRESSION": "zip", "TIMEOUT": "soon",
		"CERTIFICATE": cert + "-none", "CLIENT_KEY": cert} {
		name = "OTEL_EXPORTER_OTLP_METRICS_" + name
		t.Setenv(name, value)
		if err := send(); err == nil || !strings.Contains(err.Error(), "OTEL_EXPORTER_OTLP_") ||
			strings.Contains(err.Error(), "secret") {
			t.Errorf("%s=%s: %v", name, value, err)
		}
		os.Unsetenv(name)
	}
}
