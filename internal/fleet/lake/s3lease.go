package lake

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/minio/minio-go/v7"
	"golang.org/x/sys/unix"

	"github.com/memgauge/memgauge/internal/base/remedy"
)

// A bucket has one writer, as a directory has, which a lock holds there. S3 has none: an object stands for it, which
// conditional PUTs write (If-None-Match, If-Match), so that of two who come at once one is refused. It is renewed while
// its owner works; one that was killed leaves it for leaseTime, unless the next runs on the same machine and sees that
// it has ended.
const (
	leaseName  = ".lease"
	leaseTime  = 3 * time.Minute // maintenance renews it each minute; a merge of an hour may take two
	leaseRenew = 45 * time.Second
	maxLease   = 4 << 10 // bytes: three short texts
)

// lease is what the object says.
type lease struct {
	Host string    `json:"host"`
	Boot string    `json:"boot"` // of the machine
	PID  int       `json:"pid"`
	At   time.Time `json:"at"` // for people: the service's own time of the object counts
}

// held is a lease that we have.
type held struct {
	sync.Mutex
	etag string
	at   time.Time
}

func ownLease() lease {
	host, _ := os.Hostname()
	boot, _ := os.ReadFile("/proc/sys/kernel/random/boot_id")
	return lease{host, strings.TrimSpace(string(boot)), os.Getpid(), time.Now().UTC()}
}

// ended says for sure that the lease's process is no more: it ran on this machine.
func (l lease) ended() bool {
	own := ownLease()
	if l.Host != own.Host || l.Boot != own.Boot || l.Boot == "" {
		return false
	}
	// in a container that was started again the next process has the number of the one before; two places in one
	// process are both alive
	return errors.Is(unix.Kill(l.PID, 0), unix.ESRCH)
}

// takeLease takes the bucket for writing, or says who has it.
func (b *bucket) takeLease(ctx context.Context) error {
	var o minio.PutObjectOptions
	o.SetMatchETagExcept("*")
	err := b.putLease(ctx, o)
	if !taken(err) {
		return err
	}
	have, info, err := b.readLease(ctx)
	if minio.ToErrorResponse(err).Code == "NoSuchKey" { // given back meanwhile
		return b.putLease(ctx, o)
	}
	if err != nil {
		return err
	}
	if age := time.Since(info.LastModified); age < leaseTime && !have.ended() {
		err := fmt.Errorf("another process writes it: %d on %.100q, seen %s ago", have.PID, have.Host,
			age.Round(time.Second))
		return remedy.Add(err, "a lake has one writer; one that was killed is forgotten after "+leaseTime.String())
	}
	o = minio.PutObjectOptions{}
	o.SetMatchETag(info.ETag)
	if err := b.putLease(ctx, o); !taken(err) {
		return err
	}
	return remedy.Add(errors.New("another process writes it since now"), "a lake has one writer")
}

// taken says that another was faster.
func taken(err error) bool {
	code := minio.ToErrorResponse(err).StatusCode
	return err != nil && (code == http.StatusPreconditionFailed || code == http.StatusConflict)
}

func (b *bucket) putLease(ctx context.Context, o minio.PutObjectOptions) error {
	text, err := json.Marshal(ownLease())
	if err != nil {
		return err
	}
	info, err := b.client.PutObject(ctx, b.name, b.prefix+leaseName, bytes.NewReader(text), int64(len(text)), o)
	if err != nil {
		return err
	}
	b.held.etag, b.held.at = info.ETag, time.Now()
	return nil
}

func (b *bucket) readLease(ctx context.Context) (l lease, info minio.ObjectInfo, err error) {
	o, err := b.client.GetObject(ctx, b.name, b.prefix+leaseName, minio.GetObjectOptions{})
	if err != nil {
		return l, info, err
	}
	defer o.Close()
	if info, err = o.Stat(); err != nil {
		return l, info, err
	}
	text, err := io.ReadAll(io.LimitReader(o, maxLease))
	if err == nil {
		_ = json.Unmarshal(text, &l) // one that says nothing is somebody's, and ends by its age
	}
	return l, info, err
}

// renew keeps the lease; an error says that another has it by now, and nothing may be written.
func (b *bucket) renew(ctx context.Context) error {
	b.held.Lock()
	defer b.held.Unlock()
	if b.held.etag == "" || time.Since(b.held.at) < leaseRenew {
		return nil
	}
	var o minio.PutObjectOptions
	o.SetMatchETag(b.held.etag)
	err := b.putLease(ctx, o)
	if taken(err) || minio.ToErrorResponse(err).Code == "NoSuchKey" {
		err = remedy.Add(errors.New("another process writes the lake since this one was last seen"),
			"a lake has one writer: end one of them")
	}
	if err != nil {
		return fmt.Errorf("renew the lease: %w", err)
	}
	return nil
}

// giveLease gives it back, if nobody else has it.
func (b *bucket) giveLease() error {
	b.held.Lock()
	defer b.held.Unlock()
	if b.held.etag == "" {
		return nil
	}
	// the end does not wait for a service that is away
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	_, info, err := b.readLease(ctx)
	if err != nil || info.ETag != b.held.etag {
		return nil // it ends by its age
	}
	b.held.etag = ""
	return b.client.RemoveObject(ctx, b.name, b.prefix+leaseName, minio.RemoveObjectOptions{})
}
