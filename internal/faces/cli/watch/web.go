package watch

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/memgauge/memgauge/internal/base/plain"
	"github.com/memgauge/memgauge/internal/base/remedy"
	"github.com/memgauge/memgauge/internal/base/rootdir"
	"github.com/memgauge/memgauge/internal/base/trust"
	"github.com/memgauge/memgauge/internal/door/api"
	"github.com/memgauge/memgauge/internal/door/ask"
	"github.com/memgauge/memgauge/internal/faces/cli/app"
	"github.com/memgauge/memgauge/internal/faces/web"
	"github.com/memgauge/memgauge/internal/formats/snapshot"
)

type webOptions struct {
	addr, tokenFile, cert, key string
	open, allowEval, source    bool
	snapshots                  []string
}

func (a *commands) webCommand() *cobra.Command {
	var o webOptions
	c := &cobra.Command{
		Use:   "web",
		Short: "Look at sessions in a browser, live or finished",
		Long: "Serves a page on this machine and prints its address: the sessions, and of each its memory over\n" +
			"time, where the bytes are, the verdicts with the source around them, tensors, stacks, SQL, and what\n" +
			"observing cost; and PyTorch's memory snapshots (--snapshot, or dropped onto the page) as stacked\n" +
			"boxes, flame graphs, segments, and compared. The address carries a random token; without it nobody\n" +
			"gets anything. Nothing is loaded from elsewhere (docs/web.md).",
		Example: "  memgauge web --open\n" +
			"  memgauge web --snapshot before.pickle --snapshot after.pickle\n" +
			"  memgauge 27891 web\n" +
			"  memgauge hub job=llama web\n" +
			"  memgauge web --addr 10.0.0.5:8443 --token-file token --tls-cert cert.pem --tls-key key.pem",
		Args: app.Alone,
		RunE: func(c *cobra.Command, _ []string) error { return a.web(c.Context(), o) },
	}
	f := c.Flags()
	f.StringVar(&o.addr, "addr", "",
		"listen on `HOST:PORT`; port 0 is any that is free (default: a loopback address picked at random, port 0)")
	f.BoolVar(&o.open, "open", false, "open the page in the browser")
	f.BoolVar(&o.allowEval, "allow-eval", false, "let the page run code in the trainer")
	f.StringArrayVar(&o.snapshots, "snapshot", nil, "show the memory snapshot in `FILE`; may be given again")
	f.BoolVar(&o.source, "source", false,
		"the --snapshot files were recorded on this machine: show lines of the Python files that they name")
	f.StringVar(&o.tokenFile, "token-file", "", "take the token from `FILE`, of at least 16 characters")
	f.StringVar(&o.cert, "tls-cert", "", "serve HTTPS with this certificate (PEM `FILE`)")
	f.StringVar(&o.key, "tls-key", "", "the certificate's key (PEM `FILE`)")
	return c
}

// web serves until Ctrl-C, which is the way to end it: no failure.
func (a *commands) web(ctx context.Context, o webOptions) error {
	opts, err := o.served()
	if err != nil {
		return err
	}
	opts.Sessions, opts.Version = sessions{}, app.Version
	opts.Log = slog.New(slog.NewTextHandler(a.Stderr, nil))
	for _, path := range o.snapshots { // a wrong name is told here, not in the page
		if info, err := os.Stat(path); err != nil {
			return fmt.Errorf("web: --snapshot: %w", err)
		} else if !info.Mode().IsRegular() {
			return app.Usage(fmt.Errorf("web: --snapshot: %s is not a file", path))
		}
		if err := snapshot.Recognise(path); err != nil {
			return fmt.Errorf("web: --snapshot: %w", err)
		}
	}
	if o.source && len(o.snapshots) == 0 {
		return app.Usage(errors.New("web: --source is about the files of --snapshot"))
	}
	opts.Snapshots, opts.Source = o.snapshots, o.source
	if a.Named() {
		if err := a.shows(ctx, &opts); err != nil {
			return err
		}
	}
	opts.Listener, err = a.listen(ctx, o.addr)
	if err != nil {
		return fmt.Errorf("web: %w", err)
	}
	defer opts.Listener.Close()
	s, err := web.New(opts)
	if err != nil {
		return err
	}
	if !web.Bundled() {
		fmt.Fprintln(a.Stderr, "memgauge: this program carries no page: make build makes it")
	}
	fmt.Fprintln(a.Text(), s.URL())
	fmt.Fprintln(a.Stderr, "memgauge: open this address in a browser; Ctrl-C ends it")
	if o.open {
		done, err := a.browse(s.URL())
		if err != nil {
			return fmt.Errorf("web: %w", err)
		}
		defer done()
	}
	return s.Run(ctx)
}

// shows has the page show what the command line names: one session first, or the ranks of a job beside each other.
func (a *commands) shows(ctx context.Context, opts *web.Options) error {
	one, err := a.Narrow(ctx)
	if err != nil {
		return err
	}
	if !one {
		f, err := a.farSessions(ctx)
		if err != nil {
			return err
		}
		opts.Sessions, opts.Job = f, &web.Job{Name: cmp.Or(f.from.Select.Job, "hub"), Members: f.members}
		return nil
	}
	t, err := a.Target(ctx)
	if err != nil {
		return err
	}
	about := t.About()
	opts.First, opts.Sessions = about.ID, sessions{&t, about.ID}
	return nil
}

// listen takes the address that the user names, else one of the 16 million of 127.0.0.0/8. What a browser keeps belongs
// to an address and a port: whoever had them before may have left a service worker or a cached page there, which gets
// the token in place of ours. Nobody can prepare an address that is picked now.
func (a *commands) listen(ctx context.Context, addr string) (net.Listener, error) {
	var l net.ListenConfig
	if addr != "" {
		return l.Listen(ctx, "tcp", addr)
	}
	var b [3]byte
	_, _ = rand.Read(b[:]) // it never fails
	host := net.IPv4(127, 1+b[0]%254, b[1], 1+b[2]%254)
	picked, err := l.Listen(ctx, "tcp", net.JoinHostPort(host.String(), "0"))
	if err == nil {
		return picked, nil
	}
	plain.Fprintf(a.Stderr, "memgauge: %v: 127.0.0.1 serves instead, whose ports other users may have had before\n",
		err)
	return l.Listen(ctx, "tcp", "127.0.0.1:0")
}

// served reads what is needed to serve somebody beyond this machine, and refuses to do it without.
func (o webOptions) served() (s web.Options, err error) {
	s.Token, s.AllowEval = rand.Text(), o.allowEval
	if o.tokenFile != "" {
		if s.Token, err = app.ReadToken(o.tokenFile); err != nil {
			return s, fmt.Errorf("web: %w", err)
		}
	}
	if (o.cert == "") != (o.key == "") {
		return s, app.Usage(errors.New("web: --tls-cert and --tls-key go together"))
	}
	if o.cert != "" {
		pair, err := tls.LoadX509KeyPair(o.cert, o.key)
		if err != nil {
			return s, fmt.Errorf("web: --tls-cert: %w", err)
		}
		s.TLS = &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}
	}
	if o.addr == "" {
		return s, nil
	}
	if _, _, err := net.SplitHostPort(o.addr); err != nil {
		return s, app.Usage(fmt.Errorf("web: --addr %q: not HOST:PORT", o.addr))
	}
	if !loopback(o.addr) && (o.tokenFile == "" || s.TLS == nil) {
		return s, app.Usage(remedy.Add(fmt.Errorf("web: %s is reachable from other machines", o.addr),
			"that needs --token-file, --tls-cert and --tls-key; ssh -L forwards a local port without them"))
	}
	return s, nil
}

func loopback(addr string) bool {
	host, _, err := net.SplitHostPort(addr)
	ip := net.ParseIP(host)
	return err == nil && (host == "localhost" || ip != nil && ip.IsLoopback())
}

// browse opens the address in the user's browser, by a page on the disk that leads there, until done. Every user of the
// machine can read a command line, and whoever has the address has the page.
func (a *commands) browse(address string) (done func(), err error) {
	home, err := ask.Home()
	if err != nil {
		return nil, err
	}
	parent, err := rootdir.Own(home, trust.Data)
	if err != nil {
		return nil, err
	}
	dir, err := parent.Temp("open-")
	if err != nil {
		return nil, errors.Join(err, parent.Close())
	}
	done = func() { _ = errors.Join(dir.Discard(), parent.Close()) } // at the end: nobody is there to be told
	target, err := json.Marshal(address)                             // with \u003c for <
	if err == nil {
		err = dir.MakeText(openName, fmt.Appendf(nil, openPage, target))
	}
	if err != nil {
		done()
		return nil, err
	}
	a.xdgOpen((&url.URL{Scheme: "file", Path: filepath.Join(dir.Path(), openName)}).String())
	return done, nil
}

const (
	openName = "memgauge.html"
	openPage = "<!doctype html><meta charset=utf-8><title>memgauge</title><script>location.replace(%s)</script>\n"
)

// xdgOpen leaves the browser to the desktop, and ends.
func (a *commands) xdgOpen(url string) {
	for _, name := range []string{"xdg-open", "open", "wslview"} {
		path, err := exec.LookPath(name)
		if err != nil {
			continue
		}
		if err := exec.Command(path, url).Run(); err != nil {
			plain.Fprintf(a.Stderr, "memgauge: %s: %v\n", name, err)
		}
		return
	}
	fmt.Fprintln(a.Stderr, "memgauge: there is no xdg-open to open a browser with")
}

// sessions finds them for the page. One may have been named by its directory, where no list has it.
type sessions struct {
	named *ask.Target
	id    string
}

// List describes the sessions, live ones first.
func (s sessions) List(ctx context.Context) ([]api.Listed, []error, error) {
	return ask.List(ctx, true)
}

// Open makes the door to a session.
func (s sessions) Open(_ context.Context, id string) (api.Session, error) {
	if s.named != nil && id == s.id {
		return s.named.Apart().Open(), nil
	}
	t, err := ask.Find(ask.Wanted{Name: id})
	if err != nil {
		return nil, err
	}
	if t.About().ID != id { // a PID or a name, which may come to mean another session
		return nil, ask.ErrNone
	}
	return t.Apart().Open(), nil
}
