package otlp

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"
)

// What is not of the command line comes from the variables that OpenTelemetry has for it, of which those for metrics
// come first: headers, such as a token, authorities and a certificate for TLS, packing, a limit of time, and
// attributes of the resource.

// variable is the value of OTEL_EXPORTER_OTLP_METRICS_name, or else of OTEL_EXPORTER_OTLP_name.
func variable(name string) (value string) {
	if value = strings.TrimSpace(os.Getenv("OTEL_EXPORTER_OTLP_METRICS_" + name)); value == "" {
		value = strings.TrimSpace(os.Getenv("OTEL_EXPORTER_OTLP_" + name))
	}
	return value
}

// pairs reads key=value,… with values as they stand in a URL.
func pairs(text string) (list [][2]string, err error) {
	for part := range strings.SplitSeq(text, ",") {
		if strings.TrimSpace(part) == "" {
			continue
		}
		key, value, ok := strings.Cut(part, "=")
		key = strings.TrimSpace(key)
		value, bad := url.PathUnescape(strings.TrimSpace(value))
		if !ok || key == "" || bad != nil {
			return nil, errors.New("not key=value,…") // what stands there may be a secret
		}
		list = append(list, [2]string{key, value})
	}
	return list, nil
}

// environment completes a sender by what the environment says.
func (s *sender) environment() error {
	headers, err := pairs(variable("HEADERS"))
	if err != nil {
		return fmt.Errorf("OTEL_EXPORTER_OTLP_HEADERS: %w", err)
	}
	for _, h := range headers {
		s.headers.Set(h[0], h[1])
	}
	more, err := pairs(os.Getenv("OTEL_RESOURCE_ATTRIBUTES"))
	if err != nil {
		return fmt.Errorf("OTEL_RESOURCE_ATTRIBUTES: %w", err)
	}
	for _, a := range more {
		if a[0] != serviceName && a[0] != serviceVersion {
			s.resource = append(s.resource, a)
		}
	}
	switch packing := variable("COMPRESSION"); packing {
	case "gzip":
		s.gzip = true
	case "", "none":
	default:
		return fmt.Errorf("OTEL_EXPORTER_OTLP_COMPRESSION: %q is neither gzip nor none", packing)
	}
	if text := variable("TIMEOUT"); text != "" {
		ms, err := strconv.ParseUint(text, 10, 31)
		if err != nil {
			return fmt.Errorf("OTEL_EXPORTER_OTLP_TIMEOUT: %q is not a number of ms", text)
		}
		s.client.Timeout = time.Duration(ms) * time.Millisecond
	}
	transport := http.DefaultTransport.(*http.Transport).Clone() // it knows proxies
	if transport.TLSClientConfig, err = security(); err != nil {
		return err
	}
	s.client.Transport = transport
	return nil
}

// security is what the environment says of TLS.
func security() (*tls.Config, error) {
	c := &tls.Config{MinVersion: tls.VersionTLS12}
	if path := variable("CERTIFICATE"); path != "" {
		text, err := os.ReadFile(path)
		if err != nil {
			return nil, fmt.Errorf("OTEL_EXPORTER_OTLP_CERTIFICATE: %w", err)
		}
		c.RootCAs = x509.NewCertPool()
		if !c.RootCAs.AppendCertsFromPEM(text) {
			return nil, fmt.Errorf("OTEL_EXPORTER_OTLP_CERTIFICATE: %s has no certificate", path)
		}
	}
	cert, key := variable("CLIENT_CERTIFICATE"), variable("CLIENT_KEY")
	if cert == "" && key == "" {
		return c, nil
	}
	pair, err := tls.LoadX509KeyPair(cert, key)
	if err != nil {
		return nil, fmt.Errorf("OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE: %w", err)
	}
	c.Certificates = []tls.Certificate{pair}
	return c, nil
}
