package owner

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/memgauge/memgauge/internal/probe/sampler"
	"github.com/memgauge/memgauge/internal/record/ingest"
)

const (
	holdShare = 4                // rows and samples wait for a quarter of the training's age before they are stored, …
	holdLeast = 2 * time.Second  // … at least so long, …
	HoldMost  = 30 * time.Second // … and at most; a transaction of all tables takes 10 to 50 ms

	longQuestion = time.Second // a query that runs longer may end this process, and with it the rows in memory
)

// Hold is how long rows may wait in memory at this age of the training. Before the first step (age 0) it is short.
func Hold(age time.Duration) time.Duration { return min(max(age/holdShare, holdLeast), HoldMost) }

// Drain stores the rings' records and all samples in the database.
func (o *Owner) Drain(ctx context.Context) error {
	_, err := o.DrainOlder(ctx, 0)
	return err
}

// DrainOlder is Drain, but samples younger than wait stay in memory.
func (o *Owner) DrainOlder(ctx context.Context, wait time.Duration) (ingest.Stats, error) {
	stats, err := o.rings.Drain(ctx)
	return stats, errors.Join(err, o.StoreSamples(ctx, wait), o.lookNative(ctx, nativeAsked))
}

// Gather reads the rings. It stores rows and samples once the oldest has waited long enough.
func (o *Owner) Gather(ctx context.Context) (ingest.Stats, error) {
	wait := o.patience()
	stats, err := o.rings.Gather(ctx, wait)
	if o.Rests() {
		return stats, errors.Join(err, o.StoreSamples(ctx, HoldMost))
	}
	return stats, errors.Join(err, o.StoreSamples(ctx, wait), o.lookNative(ctx, o.natives.pause()))
}

// StoreSamples stores the samples if the oldest is older than wait. After an error they stay pending.
func (o *Owner) StoreSamples(ctx context.Context, wait time.Duration) error {
	b := o.pending.take(time.Now(), wait)
	if b == nil {
		return nil
	}
	var err error
	took := sampler.ThreadTime(func() { err = o.base.append(context.WithoutCancel(ctx), b) })
	if err != nil {
		o.pending.back(b)
		return fmt.Errorf("store samples: %w", err)
	}
	o.pending.stored(took)
	return nil
}

// patience returns how long rows may wait in memory. It is short while a long query runs, since that may end this
// process.
func (o *Owner) patience() time.Duration {
	if o.oldest() > longQuestion {
		return 0
	}
	return Hold(o.trainers.Age())
}
