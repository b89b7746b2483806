package owner

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/memgauge/memgauge/internal/ingest"
	"github.com/memgauge/memgauge/internal/sampler"
)

const (
	holdShare = 4                // what was read and sampled waits for a quarter of the training's age, …
	holdLeast = 2 * time.Second  // … at least so long, …
	HoldMost  = 30 * time.Second // … and at most; a transaction of all tables takes 10 to 50 ms

	longQuestion = time.Second // a question that runs longer may cost this process, and what it holds in memory
)

// Hold is how long rows may wait in memory at this age of the training. Before the first step (age 0) it is short.
func Hold(age time.Duration) time.Duration { return min(max(age/holdShare, holdLeast), HoldMost) }

// Drain brings what is in the rings, and what was sampled, into the database.
func (o *Owner) Drain(ctx context.Context) error {
	_, err := o.DrainOlder(ctx, 0)
	return err
}

// DrainOlder is Drain, but leaves in memory what was sampled within the last wait.
func (o *Owner) DrainOlder(ctx context.Context, wait time.Duration) (ingest.Stats, error) {
	stats, err := o.rings.Drain(ctx)
	return stats, errors.Join(err, o.StoreSamples(ctx, wait), o.lookNative(ctx, nativeAsked))
}

// Gather reads what the rings hold, and stores it and what was sampled once that has waited long enough.
func (o *Owner) Gather(ctx context.Context) (ingest.Stats, error) {
	wait := o.patience()
	stats, err := o.rings.Gather(ctx, wait)
	return stats, errors.Join(err, o.StoreSamples(ctx, wait), o.lookNative(ctx, o.natives.pause()))
}

// StoreSamples stores what was sampled, if the oldest of it is older than wait. What could not be stored waits on.
func (o *Owner) StoreSamples(ctx context.Context, wait time.Duration) error {
	b := o.pending.take(time.Now(), wait)
	if b == nil {
		return nil
	}
	var err error
	took := sampler.ThreadTime(func() { err = o.db.Append(context.WithoutCancel(ctx), b) })
	if err != nil {
		o.pending.back(b)
		return fmt.Errorf("store samples: %w", err)
	}
	o.pending.stored(took)
	return nil
}

// patience is how long rows may wait in memory. While a question runs that may cost this process it is short.
func (o *Owner) patience() time.Duration {
	if o.db.Oldest() > longQuestion {
		return 0
	}
	return Hold(o.trainers.Age())
}
