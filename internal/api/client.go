package api

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"

	"github.com/memgauge/memgauge/internal/detect"
	"github.com/memgauge/memgauge/internal/model"
	"github.com/memgauge/memgauge/internal/sock"
)

// Client asks a collector.
type Client struct {
	http *http.Client
}

// NewClient makes a client of the collector at a socket. It connects with the first request.
func NewClient(path string) *Client {
	return &Client{&http.Client{Transport: &http.Transport{
		DialContext:        func(ctx context.Context, _, _ string) (net.Conn, error) { return sock.Dial(ctx, path) },
		DisableCompression: true,
	}}}
}

// Dial reports whether a collector listens at the socket.
func Dial(ctx context.Context, path string) error {
	c, err := sock.Dial(ctx, path)
	if err != nil {
		return err
	}
	return c.Close()
}

// Query writes the result to w. On an error w may have received a part of it.
func (c *Client) Query(ctx context.Context, q QueryRequest, w io.Writer) error {
	body, err := json.Marshal(q)
	if err != nil {
		return fmt.Errorf("query: %w", err)
	}
	resp, err := c.do(ctx, http.MethodPost, "/v1/query", body)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	q.note(resp.Header.Get(noteHeader))
	answer := &reading{from: resp.Body}
	if _, err := io.Copy(w, answer); err != nil {
		if answer.err == nil { // it was w
			return fmt.Errorf("query: %w", err)
		}
		return c.broken(ctx, "query", err)
	}
	if t := resp.Trailer.Get(errorTrailer); t != "" {
		return decodeError([]byte(t))
	}
	return nil
}

// reading remembers whether a copy failed at its source.
type reading struct {
	from io.Reader
	err  error
}

func (r *reading) Read(p []byte) (int, error) {
	n, err := r.from.Read(p)
	if err != nil && err != io.EOF {
		r.err = err
	}
	return n, err
}

// Tables describes the tables.
func (c *Client) Tables(ctx context.Context, all bool) ([]model.Table, error) {
	path := "/v1/tables"
	if all {
		path += "?all"
	}
	var r TablesReply
	err := c.get(ctx, http.MethodGet, path, &r)
	return r.Tables, err
}

// Census asks live processes what holds their memory.
func (c *Client) Census(ctx context.Context, q CensusRequest) (CensusReply, error) {
	var r CensusReply
	body, err := json.Marshal(q)
	if err == nil {
		err = c.fetch(ctx, http.MethodPost, "/v1/census", body, &r)
	}
	return r, err
}

// Leak judges the session.
func (c *Client) Leak(ctx context.Context, q LeakRequest) (detect.Report, error) {
	var r detect.Report
	body, err := json.Marshal(q)
	if err == nil {
		err = c.fetch(ctx, http.MethodPost, "/v1/leak", body, &r)
	}
	return r, err
}

// Summary sums the session up.
func (c *Client) Summary(ctx context.Context) (Summary, error) {
	var s Summary
	err := c.get(ctx, http.MethodGet, "/v1/summary", &s)
	return s, err
}

// Outcome is Summary; a live session has no outcome yet.
func (c *Client) Outcome(ctx context.Context) (Summary, error) { return c.Summary(ctx) }

// Finish tells the collector that the command has ended, and returns the summary.
func (c *Client) Finish(ctx context.Context) (Summary, error) {
	var s Summary
	err := c.get(ctx, http.MethodPost, "/v1/finish", &s)
	return s, err
}

func (c *Client) get(ctx context.Context, method, path string, v any) error {
	return c.fetch(ctx, method, path, nil, v)
}

func (c *Client) fetch(ctx context.Context, method, path string, body []byte, v any) error {
	resp, err := c.do(ctx, method, path, body)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if err := json.NewDecoder(resp.Body).Decode(v); err != nil {
		return c.broken(ctx, "ask the collector", err)
	}
	return nil
}

func (c *Client) do(ctx context.Context, method, path string, body []byte) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, "http://"+localHost+path, bytes.NewReader(body))
	if err != nil {
		return nil, fmt.Errorf("ask the collector: %w", err)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, c.broken(ctx, "ask the collector", err)
	}
	if resp.StatusCode == http.StatusOK {
		return resp, nil
	}
	defer resp.Body.Close()
	// an error message of DuckDB repeats the statement at most once
	b, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	if err != nil {
		return nil, c.broken(ctx, "ask the collector", err)
	}
	return nil, decodeError(b)
}

// broken names a failure of the connection; when we ended it ourselves it says that instead.
func (c *Client) broken(ctx context.Context, what string, err error) error {
	if cause := context.Cause(ctx); cause != nil {
		if errors.Is(cause, context.Canceled) {
			return fmt.Errorf("%s: %w", what, ErrCanceled)
		}
		return fmt.Errorf("%s: %w", what, cause)
	}
	return fmt.Errorf("%s: %w: %w", what, ErrBroken, err)
}

func decodeError(b []byte) error {
	var e Error
	if err := json.Unmarshal(b, &e); err != nil || e.Message == "" {
		return fmt.Errorf("ask the collector: it answered %.200q", b)
	}
	return e.unpack()
}
