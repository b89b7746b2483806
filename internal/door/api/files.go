package api

import (
	"context"
	"errors"
	"fmt"

	"github.com/memgauge/memgauge/internal/base/remedy"
)

// ErrElsewhere is a file that lies on another machine.
var ErrElsewhere = errors.New("it can't be read here")

// SnapshotElsewhere is the error for a snapshot that a session on another machine keeps, or does not.
func (a About) SnapshotElsewhere() error {
	if a.Snapshot == nil {
		return a.NoSnapshot()
	}
	return remedy.Add(fmt.Errorf("the snapshot lies on %s: %w", a.Host, ErrElsewhere),
		fmt.Sprintf("there: memgauge %s snapshot; or copy %s here: memgauge snapshot FILE", a.Name, a.Snapshot.Path))
}

// NoSnapshot is the error for a session that keeps none.
func (a About) NoSnapshot() error {
	return remedy.Add(fmt.Errorf("session %s keeps no snapshot", a.Name),
		"memgauge snapshot take has a live trainer write one")
}

// SourceElsewhere is the error for a file of a program that runs on another machine.
func (a About) SourceElsewhere() error {
	return remedy.Add(fmt.Errorf("source: it lies on %s: %w", a.Host, ErrElsewhere),
		fmt.Sprintf("there: memgauge %s web", a.Name))
}

// SourceOfCopy is the error for a file of a copied session's program: any file of this machine may have its name.
func (a About) SourceOfCopy() error {
	return remedy.Add(fmt.Errorf("source: %s is a copy of a session: %w", a.Dir, ErrElsewhere),
		"the session itself shows it, where it was recorded")
}

// SnapshotFile fails: a client sees no disk but its own.
func (c *Client) SnapshotFile(ctx context.Context) (string, error) {
	about, err := c.About(ctx)
	if err == nil {
		err = about.SnapshotElsewhere()
	}
	return "", err
}

// SourceFile fails likewise.
func (c *Client) SourceFile(ctx context.Context, _ string) (string, error) {
	about, err := c.About(ctx)
	if err == nil {
		err = about.SourceElsewhere()
	}
	return "", err
}
