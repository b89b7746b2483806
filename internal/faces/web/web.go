// Package web serves sessions to a browser: a page, and the questions that it asks. It sees of a session only
// api.Session, and finds sessions by Sessions. Nobody gets an answer without the token that the first address carries;
// the page can do no more than memgauge's own commands, and evaluates code only where the user has allowed it.
package web

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/memgauge/memgauge/internal/base/remedy"
	"github.com/memgauge/memgauge/internal/base/sock"
	"github.com/memgauge/memgauge/internal/door/api"
)

// Sessions finds sessions, live and finished ones.
type Sessions interface {
	// List describes them, and says why entries that look like one could not be read.
	List(ctx context.Context) (list []api.Listed, left []error, err error)
	// Open makes the door to the session with this id.
	Open(ctx context.Context, id string) (api.Session, error)
}

// Options say what is served, and to whom.
type Options struct {
	Sessions  Sessions
	First     string // id of the session that the page begins with; "" for the list
	AllowEval bool
	Token     string       // what the first address carries
	TLS       *tls.Config  // nil: plain HTTP, on loopback
	Listener  net.Listener // whoever made it closes it
	Version   string
	Snapshots []string     // files of memory snapshots that the page shows; the first at once, without First
	Source    bool         // the Snapshots were recorded on this machine: lines of files that they name are shown
	Job       *Job         // whose ranks are set beside each other; nil for none
	Log       *slog.Logger // nil: nobody reads it
}

// Server serves one listener.
type Server struct {
	Options
	files   map[string]file
	key     string // of who has entered
	origin  string // scheme and host that the page has
	hosts   []string
	doors   doors
	watches chan struct{} // a place for each stream of news

	snapshots snapshots
	ranks     ranks
}

// maxWatches bounds open streams: each costs some milliseconds a second. A browser opens at most six to a host.
const maxWatches = 24

// New makes a server.
func New(o Options) (*Server, error) {
	if o.Token == "" {
		return nil, errors.New("web: there is no token")
	}
	files, err := bundled()
	if err != nil {
		return nil, fmt.Errorf("web: %w", err)
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	addr := o.Listener.Addr().(*net.TCPAddr)
	s := &Server{Options: o, files: files, key: rand.Text(), watches: make(chan struct{}, maxWatches)}
	s.doors.sessions, s.doors.rights = o.Sessions, api.Reading
	if o.AllowEval {
		s.doors.rights |= api.MayEval
	}
	s.snapshots.init(o.Snapshots, o.Source)
	scheme, port := "http", fmt.Sprint(addr.Port)
	if o.TLS != nil {
		scheme = "https"
	}
	s.hosts = []string{addr.String(), net.JoinHostPort("localhost", port)}
	s.origin = scheme + "://" + addr.String()
	return s, nil
}

// URL is the address for the browser, with the token where no request carries it.
func (s *Server) URL() string {
	address := s.origin + "/#token=" + url.PathEscape(s.Token)
	switch {
	case s.First != "":
		address += "/s/" + s.First
	case len(s.Snapshots) > 0:
		address += "/f/1"
	}
	return address
}

const (
	// maxStrangers bounds connections of who has no key (yet): a browser opens six, and each takes some 25 KiB.
	maxStrangers = 512

	readPatience = 30 * time.Second
	idlePatience = 2 * time.Minute
	lastWords    = 2 * time.Second // for answers under way when the server ends
)

// Run serves until ctx ends.
func (s *Server) Run(ctx context.Context) error {
	quiet := log.New(discard{}, "", 0) // a browser that breaks a handshake is no news
	srv := &http.Server{Handler: s.Handler(), MaxHeaderBytes: 1 << 16, ReadHeaderTimeout: readPatience,
		IdleTimeout: idlePatience, ErrorLog: quiet, TLSConfig: s.TLS, ConnContext: sock.WithGuest,
		BaseContext: func(net.Listener) context.Context { return ctx }}
	defer s.doors.close()
	defer s.snapshots.close()
	s.snapshots.begin()
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error {
		<-ctx.Done()
		end, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastWords)
		defer cancel()
		if srv.Shutdown(end) != nil {
			_ = srv.Close()
		}
		return nil
	})
	g.Go(func() error {
		err := s.serve(srv)
		if errors.Is(err, http.ErrServerClosed) {
			return nil
		}
		return fmt.Errorf("web: %w", err)
	})
	g.Go(func() error { s.doors.tidy(ctx); return nil })
	return g.Wait()
}

func (s *Server) serve(srv *http.Server) error {
	crowd := sock.NewCrowd(s.Listener, maxStrangers)
	if s.TLS != nil {
		return srv.ServeTLS(crowd, "", "")
	}
	return srv.Serve(crowd)
}

type discard struct{}

func (discard) Write(p []byte) (int, error) { return len(p), nil }

// route is what a page can ask for. Whatever a session is asked for it, needs no more than that right. Those without
// any are for everybody: the page's own files, which every memgauge of this version has.
type route struct {
	pattern string
	needs   api.Rights
	serve   http.HandlerFunc
}

// routes are all of them; nothing else is served.
func (s *Server) routes() []route {
	list := []route{
		{"GET /{$}", 0, s.page},
		{"GET /{file}", 0, s.file},
		{"POST /api/enter", 0, s.enter},
		{"GET /api/config", api.MayRead, s.config},
		{"GET /api/sessions", api.MayRead, s.list},
		{"GET /api/ranks", api.MayRead, s.heatMap},
		{"GET /api/s/{id}/live", api.MayRead, s.live},
		{"POST /api/s/{id}/query", api.MayQuery, s.query},
		{"POST /api/s/{id}/eval", api.MayEval, s.eval},
	}
	for path, answer := range map[string]question{
		"GET /brief": brief, "GET /about": about, "GET /tables": tables, "GET /series": series, "GET /events": events,
		"GET /where": where, "GET /verdicts": verdicts, "GET /source": source, "GET /tensors": tensors,
		"POST /census": census, "GET /stacks": stacks, "GET /cost": cost, "GET /functions": functions,
		"GET /native": native, "GET /postmortem": postMortem,
	} {
		method, name, _ := strings.Cut(path, " ")
		list = append(list, route{method + " /api/s/{id}" + name, api.Reading, s.asked(answer)})
	}
	return append(list, s.snapshotRoutes()...)
}

// Handler is what the server serves, behind the guard.
func (s *Server) Handler() http.Handler { return s.guard(api.NewCatcher(s.Log).Wrap(s.mux())) }

func (s *Server) mux() http.Handler {
	mux := http.NewServeMux()
	for _, r := range s.routes() {
		mux.HandleFunc(r.pattern, func(w http.ResponseWriter, req *http.Request) {
			switch {
			case r.needs != 0 && !s.has(req):
				refuse(w, http.StatusUnauthorized, noKey)
			case !s.doors.rights.Has(r.needs):
				reply(w, nil, fmt.Errorf("this page may not do that: %w", errRights))
			default:
				r.serve(w, req)
			}
		})
	}
	return mux
}

var errRights = remedy.Add(api.ErrForbidden, "memgauge web --allow-eval lets it run code")
