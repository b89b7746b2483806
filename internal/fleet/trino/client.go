// Package trino asks a Trino server: questions over a lake that one machine can't answer, under the same names, and the
// definitions of its tables, which it keeps in step with the lake's files. It speaks Trino's HTTP protocol
// (https://trino.io/docs/current/develop/client-protocol.html) and sends no statement of a user's that writes.
package trino

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os/user"
	"strings"
	"time"

	"github.com/memgauge/memgauge/internal/base/remedy"
)

// Client asks one server.
type Client struct {
	server  *url.URL
	catalog string
	http    http.Client
}

// DefaultServer is where deploy/trino/trino starts one.
const DefaultServer = "http://127.0.0.1:8480"

// Catalog is the catalog in which the lake's tables are.
const Catalog = "lake"

// maxPage bounds one answer of the server, in bytes; it sends pages of 16 MB at most.
const maxPage = 64 << 20

// New makes a client; nothing is sent yet.
func New(server string) (*Client, error) {
	u, err := url.Parse(server)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, remedy.Add(fmt.Errorf("%q is no URL of a Trino server", server), "such as "+DefaultServer)
	}
	return &Client{server: u, catalog: Catalog, http: http.Client{Timeout: 2 * time.Minute,
		CheckRedirect: func(*http.Request, []*http.Request) error { return errors.New("the server redirects") }}}, nil
}

// page is one answer of the protocol.
type page struct {
	NextURI string `json:"nextUri"`
	Columns []struct {
		Name string `json:"name"`
		Type string `json:"type"`
	} `json:"columns"`
	Data  [][]any `json:"data"`
	Error *struct {
		Message string `json:"message"`
		Name    string `json:"errorName"`
	} `json:"error"`
}

// begin sends a statement.
func (c *Client) begin(ctx context.Context, sql string) (page, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, c.server.JoinPath("v1/statement").String(),
		strings.NewReader(sql))
	if err != nil {
		return page{}, err
	}
	r.Header.Set("X-Trino-Catalog", c.catalog)
	r.Header.Set("X-Trino-Schema", "python")
	r.Header.Set("X-Trino-Time-Zone", "UTC")
	r.Header.Set("X-Trino-Client-Capabilities", "PARAMETRIC_DATETIME") // without it, microseconds are cut off
	return c.send(r)
}

// next asks for the page after one. The URI must lead to the server that was asked.
func (c *Client) next(ctx context.Context, uri, method string) (page, error) {
	u, err := url.Parse(uri)
	if err != nil || u.Host != c.server.Host || u.Scheme != c.server.Scheme {
		return page{}, fmt.Errorf("trino: the server sends us elsewhere: %.200q", uri)
	}
	r, err := http.NewRequestWithContext(ctx, method, uri, nil)
	if err != nil {
		return page{}, err
	}
	return c.send(r)
}

// busy is how long to wait before a busy server is asked again.
const busy = 100 * time.Millisecond

func (c *Client) send(r *http.Request) (page, error) {
	name := "memgauge"
	if u, err := user.Current(); err == nil {
		name = u.Username
	}
	r.Header.Set("X-Trino-User", name)
	for tries := 0; ; tries++ {
		answer, err := c.http.Do(r)
		if err != nil {
			return page{}, remedy.Add(fmt.Errorf("trino: %w", err), "deploy/trino/trino start LAKE starts a server")
		}
		text, err := io.ReadAll(io.LimitReader(answer.Body, maxPage))
		answer.Body.Close()
		if err != nil {
			return page{}, fmt.Errorf("trino: %w", err)
		}
		if answer.StatusCode == http.StatusServiceUnavailable && tries < 100 && r.Body == nil {
			select {
			case <-r.Context().Done():
				return page{}, r.Context().Err()
			case <-time.After(busy):
			}
			continue
		}
		if answer.StatusCode == http.StatusNoContent { // of a DELETE
			return page{}, nil
		}
		if answer.StatusCode != http.StatusOK {
			return page{}, fmt.Errorf("trino: %s: %.300s", answer.Status, strings.TrimSpace(string(text)))
		}
		return decode(text)
	}
}

func decode(text []byte) (p page, err error) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber() // no digit of a BIGINT is lost
	if err := d.Decode(&p); err != nil {
		return p, fmt.Errorf("trino: read the answer: %w", err)
	}
	if p.Error != nil {
		return p, fmt.Errorf("trino: %s", p.Error.Message)
	}
	return p, nil
}

// exec runs a statement of ours and drops its rows.
func (c *Client) exec(ctx context.Context, sql string) error {
	rows, err := c.rows(ctx, sql)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
	}
	return rows.Err()
}
