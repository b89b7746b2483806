package hub

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/memgauge/memgauge/internal/base/remedy"
	"github.com/memgauge/memgauge/internal/base/rootdir"
	"github.com/memgauge/memgauge/internal/fleet/bus"
	"github.com/memgauge/memgauge/internal/fleet/frame"
)

// A token is exchanged while nodes and people go on with the one before: that is in a file of its own, and lets its
// holders in until the next rotation. The hub looks at both files every saveEvery. Whoever may write its directory
// decides on tokens and names, so the commands leave their words there.
const (
	formerFile = ".old"    // behind the name of a token's file
	forgetFile = "forget-" // and what makes it one of its own; it has the name of a node
	maxForget  = 4 << 10   // bytes of it
)

// Rotate makes a new token for a role in the hub's directory. The one before stays valid beside it, unless now says
// that it may not: those that are connected stay so.
func (o Options) Rotate(role bus.Role, now bool) error {
	dir, err := o.existing()
	if err != nil {
		return err
	}
	defer dir.Close()
	name := map[bus.Role]string{bus.Join: joinFile, bus.Asks: askFile}[role]
	t, err := bus.TokenIn(dir, name, o.SharedSecrets)
	if err != nil {
		return fmt.Errorf("hub: %w", err)
	}
	if now {
		err = dir.Remove(name + formerFile)
	} else {
		err = dir.ReplaceText(name+formerFile, []byte(t.String()+"\n"))
	}
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("hub: %w", err)
	}
	if err := dir.ReplaceText(name, []byte(bus.NewToken(role, t.Pin).String()+"\n")); err != nil {
		return fmt.Errorf("hub: %w", err)
	}
	return nil
}

// Forget asks the hub to forget a node that is gone, so that its name is free.
func (o Options) Forget(node string) error {
	if err := frame.CheckName("node", node); err != nil {
		return err
	}
	dir, err := o.existing()
	if err != nil {
		return err
	}
	defer dir.Close()
	if err := dir.ReplaceText(forgetFile+node, []byte(node+"\n")); err != nil {
		return fmt.Errorf("hub: %w", err)
	}
	return nil
}

// existing opens the directory of a hub that was set up.
func (o Options) existing() (*rootdir.Dir, error) {
	if _, err := Find(o.Dir); err != nil {
		return nil, remedy.Add(fmt.Errorf("hub: there is none in %s", o.Dir),
			"run it on the hub's machine, as its user; --dir says where its files are")
	}
	return o.ownDir()
}

// reread takes up tokens and names that commands have left.
func (h *Hub) reread() {
	if h.server != nil && !h.o.Insecure {
		if tokens, err := h.readTokens(); err != nil {
			h.o.Log.Error("read the tokens, those before stay valid", "error", err)
		} else {
			h.server.Take(tokens...)
		}
	}
	list, err := h.dir.List()
	if err != nil {
		h.o.Log.Error("look for names to forget", "error", err)
		return
	}
	for _, f := range list {
		if !strings.HasPrefix(f.Name, forgetFile) {
			continue
		}
		text, err := h.dir.ReadFile(f.Name, maxForget)
		name := strings.TrimSpace(string(text))
		if err == nil {
			err = h.roster.forget(name)
		}
		h.o.Log.Info("asked to forget a node", "node", name, "error", err)
		if err := h.dir.Remove(f.Name); err != nil {
			h.o.Log.Error("remove what was done", "file", f.Name, "error", err)
		}
	}
}

func (h *Hub) readTokens() (list []bus.Token, err error) {
	for _, name := range []string{joinFile, askFile, joinFile + formerFile, askFile + formerFile} {
		t, err := bus.TokenIn(h.dir, name, h.o.SharedSecrets)
		if errors.Is(err, os.ErrNotExist) && strings.HasSuffix(name, formerFile) {
			continue
		}
		if err != nil {
			return nil, err
		}
		list = append(list, t)
	}
	return list, nil
}
