package bus

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/nats-io/nats.go"

	"github.com/memgauge/memgauge/internal/base/remedy"
)

// CheckURLs checks the addresses of a NATS of the user's, with commas between them.
func CheckURLs(list string) error {
	for one := range strings.SplitSeq(list, ",") {
		u, err := url.Parse(one)
		switch {
		case err != nil || u.Scheme != "nats" && u.Scheme != "tls" || u.Port() == "":
			return remedy.Add(fmt.Errorf("%.200q is not an address of a NATS server", one), "such as nats://host:4222")
		case u.User != nil:
			return remedy.Add(errors.New("credentials in an address can be read by everybody on this machine"),
				"put them into a file: --token-file hub.creds")
		}
	}
	return nil
}

// DialExternal connects a hub to a NATS of the user's, in place of the one inside of it. One that can't carry frames,
// or has a hub already, is refused.
func DialExternal(ctx context.Context, o DialOptions) (*Conn, error) {
	o.hub = true
	opts, err := o.options("")
	if err != nil {
		return nil, err
	}
	c, err := dial(o.URL, opts...)
	if err != nil {
		return nil, remedy.Add(fmt.Errorf("reach the NATS at %s: %w", o.URL, err),
			"does it run there, with TLS 1.3 to a certificate that --ca vouches for, and know the credentials?")
	}
	if err := c.fits(ctx); err != nil {
		c.Close()
		return nil, fmt.Errorf("use the NATS at %s: %w", o.URL, err)
	}
	return c, nil
}

func (c *Conn) fits(ctx context.Context) error {
	if most := c.nc.MaxPayload(); most < MaxMessage {
		return remedy.Add(fmt.Errorf("it takes messages of %d bytes, frames have up to %d", most, MaxMessage),
			"in its servers' configuration: max_payload: 9MB, max_pending: 256MB")
	}
	ctx, cancel := context.WithTimeout(ctx, dialTime)
	defer cancel()
	switch err := c.another(ctx); {
	case err == nil:
		return remedy.Add(errors.New("another hub has it, and two would each get half of the rows"),
			"memgauge hub status --hub HOST:PORT asks that one")
	case errors.Is(err, nats.ErrNoResponders), ctx.Err() != nil:
		// a hub that was lost hears for some minutes, and says nothing
		return nil
	default:
		return err
	}
}

// another asks whether a hub is there, as those ask whom hubs answer.
func (c *Conn) another(ctx context.Context) error {
	place := rand.Text()
	to := askInbox(place) + ".x"
	sub, err := c.nc.SubscribeSync(to)
	if err != nil {
		return err
	}
	defer func() { _ = sub.Unsubscribe() }()
	if err := c.nc.PublishRequest(Hub(place, "status"), to, nil); err != nil {
		return err
	}
	_, err = sub.NextMsgWithContext(ctx)
	return err
}
