// Package otlp sends a session's metrics to an OpenTelemetry endpoint (OTLP, protocol buffers over HTTP), by the
// official SDK.
package otlp

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetrichttp"
	"go.opentelemetry.io/otel/metric"
	sdk "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/sdk/resource"

	"github.com/memgauge/memgauge/internal/metrics"
	"github.com/memgauge/memgauge/internal/remedy"
)

// Options say where to and how often.
type Options struct {
	URL      string
	Interval time.Duration
	Version  string
	Sent     func(error) // is called after each sending but the last, with its error or nil
}

// Check returns an error for a URL that can't be an endpoint.
func Check(to string) (*url.URL, error) {
	u, err := url.Parse(to)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return nil, remedy.Add(fmt.Errorf("%q is no address of a receiver", to), "write http://HOST:4318")
	}
	if u.Path == "" || u.Path == "/" {
		u.Path = "/v1/metrics" // where the protocol has metrics
	}
	return u, nil
}

// goodbye bounds the last sending, after which the command ends.
const goodbye = 5 * time.Second

// Send sends the figures at each interval until ctx ends, and once more then.
func Send(ctx context.Context, source *metrics.Source, o Options) error {
	to, err := Check(o.URL)
	if err != nil {
		return err
	}
	lasting := context.WithoutCancel(ctx) // the last sending comes when ctx has ended
	// A failed sending is reported, not repeated: the next interval sends newer figures.
	exporter, err := otlpmetrichttp.New(lasting, otlpmetrichttp.WithEndpointURL(to.String()),
		otlpmetrichttp.WithRetry(otlpmetrichttp.RetryConfig{}))
	if err != nil {
		return fmt.Errorf("send to %s: %w", to.Redacted(), err)
	}
	reader := sdk.NewManualReader()
	provider := sdk.NewMeterProvider(sdk.WithReader(reader),
		sdk.WithResource(resource.NewSchemaless(attribute.String("service.name", "memgauge"),
			attribute.String("service.version", o.Version))))
	s := &sender{source: source, reader: reader, exporter: exporter,
		instruments: map[*metrics.Metric]metric.Float64Observable{}}
	if err := s.register(provider.Meter("memgauge", metric.WithInstrumentationVersion(o.Version))); err != nil {
		return errors.Join(fmt.Errorf("send to %s: %w", to.Redacted(), err), exporter.Shutdown(lasting))
	}
	err = s.run(ctx, o)
	late, cancel := context.WithTimeout(lasting, goodbye)
	defer cancel()
	if err != nil {
		err = fmt.Errorf("send to %s: %w", to.Redacted(), err)
	}
	return errors.Join(err, provider.Shutdown(late), exporter.Shutdown(late))
}

// sender collects and exports on demand, so that the caller gets each error.
type sender struct {
	source      *metrics.Source
	reader      *sdk.ManualReader
	exporter    sdk.Exporter
	instruments map[*metrics.Metric]metric.Float64Observable
}

// register makes an instrument of each metric, all observed by one reading.
func (s *sender) register(meter metric.Meter) error {
	all := make([]metric.Observable, 0, len(metrics.All))
	for _, m := range metrics.All {
		var made metric.Float64Observable
		var err error
		about, unit := metric.WithDescription(m.Help), metric.WithUnit(m.UCUM())
		if m.Kind == metrics.Counter {
			made, err = meter.Float64ObservableCounter(m.OTel(), about, unit)
		} else {
			made, err = meter.Float64ObservableGauge(m.OTel(), about, unit)
		}
		if err != nil {
			return err
		}
		s.instruments[m] = made
		all = append(all, made)
	}
	_, err := meter.RegisterCallback(s.observe, all...)
	return err
}

func (s *sender) observe(ctx context.Context, to metric.Observer) error {
	reading, err := s.source.Read(ctx)
	if err != nil {
		return err
	}
	for _, sample := range reading.Samples {
		labels := make([]attribute.KeyValue, 0, len(sample.Labels)+1)
		labels = append(labels, attribute.String("session", reading.Session))
		for i, name := range sample.Labels {
			labels = append(labels, attribute.String(name, sample.Values[i]))
		}
		to.ObserveFloat64(s.instruments[sample.Metric], sample.Value, metric.WithAttributes(labels...))
	}
	return nil
}

// run sends until ctx ends, and once more then. It returns only the error of the last sending: earlier errors were
// reported through Sent, and newer figures were sent after them.
func (s *sender) run(ctx context.Context, o Options) error {
	tick := time.NewTicker(o.Interval)
	defer tick.Stop()
	for {
		if err := s.send(ctx, o.Interval); ctx.Err() == nil {
			o.Sent(err)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return s.send(context.WithoutCancel(ctx), goodbye)
		}
	}
}

func (s *sender) send(ctx context.Context, patience time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, max(patience, goodbye))
	defer cancel()
	var all metricdata.ResourceMetrics
	if err := s.reader.Collect(ctx, &all); err != nil {
		return err
	}
	return s.exporter.Export(ctx, &all)
}
