package web

import (
	"crypto/rand"
	"crypto/subtle"
	"crypto/x509"
	"io"
	"net"
	"net/http"
	"slices"
	"time"

	"github.com/memgauge/memgauge/internal/base/sock"
)

// maxBody bounds a request: a statement and a little around it.
const maxBody = 5 << 20

// policy is the page's Content-Security-Policy. Style sheets that the editor makes carry the nonce; nothing else is
// inline, nothing comes from elsewhere, and nobody may frame the page.
func policy(nonce string) string {
	return "default-src 'none'; script-src 'self'; style-src 'self' 'nonce-" + nonce + "'; img-src 'self' data:; " +
		"connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
}

// guard lets through only who asks by the name of this server, and from its own page. What routes answer but the page's
// own files needs the key besides.
func (s *Server) guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("Content-Security-Policy", policy(rand.Text()))
		h.Set("Cache-Control", "no-store")
		switch {
		case !s.known(r.Host): // a name that somebody else has pointed here (DNS rebinding)
			refuse(w, http.StatusMisdirectedRequest, "wrong host: open the address that memgauge web has printed")
		case s.foreign(r):
			refuse(w, http.StatusForbidden, "another page asks: only memgauge's own may")
		default:
			limit := int64(maxBody)
			if r.URL.Path == uploadPath {
				limit = maxUpload
			}
			r.Body = http.MaxBytesReader(w, r.Body, limit)
			if s.has(r) {
				sock.Vouch(r)
			} else { // a stranger of this machine must not keep connections by sending nothing
				_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(readPatience))
			}
			next.ServeHTTP(w, r)
		}
	})
}

func refuse(w http.ResponseWriter, status int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(status)
	_, _ = w.Write([]byte(text + "\n"))
}

// known says whether a request names this server: by its address, as localhost, or by a name of its certificate.
func (s *Server) known(host string) bool {
	if slices.Contains(s.hosts, host) {
		return true
	}
	if s.TLS == nil || len(s.TLS.Certificates) == 0 {
		return false
	}
	name, _, err := net.SplitHostPort(host)
	if err != nil {
		name = host
	}
	leaf, err := x509.ParseCertificate(s.TLS.Certificates[0].Certificate[0])
	return err == nil && leaf.VerifyHostname(name) == nil
}

// foreign says whether a page from elsewhere sends the request. Browsers name the origin of all that a page asks of
// others; of what changes something they name it always.
func (s *Server) foreign(r *http.Request) bool {
	scheme := "http://"
	if s.TLS != nil {
		scheme = "https://"
	}
	if origin := r.Header.Get("Origin"); origin != "" {
		return origin != scheme+r.Host
	}
	site := r.Header.Get("Sec-Fetch-Site")
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		return site != "same-origin"
	}
	navigates := r.Header.Get("Sec-Fetch-Mode") == "navigate" // a link to the page, which needs no key
	return site != "" && site != "same-origin" && site != "none" && !navigates
}

// keyHeader carries the key. It is no cookie: browsers send those to every port of a host, so that whoever listens on
// another one would have it, or could set it. A page of another port can't read this page's storage, and only a page of
// this origin can have a browser send the header.
const keyHeader = "Memgauge-Key"

// maxToken bounds what is read of somebody who has no key yet.
const maxToken = 4 << 10

// enter exchanges the token of the first address for this server's key, which ends with it: the token may be a file's,
// and what a browser keeps can be read by whoever listens on this port later.
func (s *Server) enter(w http.ResponseWriter, r *http.Request) {
	token, err := io.ReadAll(io.LimitReader(r.Body, maxToken))
	if err != nil || !same(string(token), s.Token) {
		refuse(w, http.StatusUnauthorized, noKey)
		return
	}
	reply(w, map[string]any{"key": s.key}, nil)
}

const noKey = "This page needs the address with the token that memgauge web has printed."

func (s *Server) has(r *http.Request) bool { return same(r.Header.Get(keyHeader), s.key) }

func same(a, b string) bool { return subtle.ConstantTimeCompare([]byte(a), []byte(b)) == 1 }
