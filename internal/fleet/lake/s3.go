package lake

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"path"
	"strings"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"

	"github.com/memgauge/memgauge/internal/base/remedy"
	"github.com/memgauge/memgauge/internal/base/rootdir"
)

// bucket is a place in S3. Its readers need no lock; its one writer has a lease (see leaseTime).
type bucket struct {
	client *minio.Client
	name   string
	prefix string       // "" or ends in a slash
	made   *rootdir.Dir // the stage
	held   held         // by a writer
}

const s3Hint = "s3://BUCKET/PREFIX with AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY (or a role) in the environment, " +
	"and AWS_ENDPOINT_URL for a service that is not Amazon's"

// openBucket opens a lake at s3://BUCKET/PREFIX. Credentials come from where other clients of S3 look for them.
func openBucket(ctx context.Context, location string, write bool) (place, error) {
	u, err := url.Parse(location)
	if err != nil || u.Host == "" {
		return nil, remedy.Add(fmt.Errorf("%q names no bucket", location), s3Hint)
	}
	endpoint, secure := "s3.amazonaws.com", true
	if text := os.Getenv("AWS_ENDPOINT_URL"); text != "" {
		e, err := url.Parse(text)
		if err != nil || e.Host == "" {
			return nil, remedy.Add(fmt.Errorf("AWS_ENDPOINT_URL=%q is no URL", text), s3Hint)
		}
		endpoint, secure = e.Host, e.Scheme != "http"
	}
	client, err := minio.New(endpoint, &minio.Options{Secure: secure, Region: region(),
		Creds: credentials.NewChainCredentials([]credentials.Provider{&credentials.EnvAWS{},
			&credentials.FileAWSCredentials{}, &credentials.IAM{}})})
	if err != nil {
		return nil, remedy.Add(fmt.Errorf("open %s: %w", location, err), s3Hint)
	}
	there, err := client.BucketExists(ctx, u.Host)
	if err == nil && !there {
		err = errors.New("there is no such bucket")
	}
	if err != nil {
		return nil, remedy.Add(fmt.Errorf("open %s: %w", location, err), s3Hint)
	}
	made, err := rootdir.Temp("", "memgauge-lake-")
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", location, err)
	}
	prefix := strings.Trim(u.Path, "/")
	if prefix != "" {
		prefix += "/"
	}
	b := &bucket{client: client, name: u.Host, prefix: prefix, made: made}
	if write {
		if err := b.takeLease(ctx); err != nil {
			_ = made.Discard()
			return nil, fmt.Errorf("lock %s: %w", location, err)
		}
	}
	return b, nil
}

func region() string {
	for _, name := range []string{"AWS_REGION", "AWS_DEFAULT_REGION"} {
		if r := os.Getenv(name); r != "" {
			return r
		}
	}
	return "us-east-1"
}

func (b *bucket) list(ctx context.Context, prefix string) (list []entry, err error) {
	below := minio.ListObjectsOptions{Prefix: b.prefix + prefix, Recursive: true}
	for o := range b.client.ListObjects(ctx, b.name, below) {
		if o.Err != nil {
			return nil, o.Err
		}
		if strings.HasSuffix(o.Key, "/") { // some services show folders
			continue
		}
		list = append(list, entry{strings.TrimPrefix(o.Key, b.prefix), o.Size, o.LastModified})
	}
	return list, nil
}

func (b *bucket) dirs(ctx context.Context, of string) (names []string, err error) {
	below := b.prefix
	if of != "" {
		below += of + "/"
	}
	for o := range b.client.ListObjects(ctx, b.name, minio.ListObjectsOptions{Prefix: below}) {
		if o.Err != nil {
			return nil, o.Err
		}
		if name, is := strings.CutSuffix(strings.TrimPrefix(o.Key, below), "/"); is && !strings.HasPrefix(name, ".") {
			names = append(names, name)
		}
	}
	return names, nil
}

// put is durable with the service's answer.
func (b *bucket) put(ctx context.Context, name, made string) error {
	if err := b.renew(ctx); err != nil {
		return err
	}
	f, err := b.made.Open(made)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if _, err := b.client.PutObject(ctx, b.name, b.prefix+name, f, info.Size(), minio.PutObjectOptions{}); err != nil {
		return err
	}
	return b.made.Remove(made)
}

func (b *bucket) open(ctx context.Context, name string) (readable, error) {
	o, err := b.client.GetObject(ctx, b.name, b.prefix+name, minio.GetObjectOptions{})
	if err != nil {
		return nil, err
	}
	return o, nil
}

// local downloads a file unless the cache has it: a file of a lake never changes, but for one that a merge makes anew.
func (b *bucket) local(ctx context.Context, e entry, cache *rootdir.Dir) (*os.File, error) {
	if i, err := cache.Lstat(e.name); err == nil && i.Size == e.size && !i.Modified.Before(e.modified) {
		return cache.Open(e.name)
	}
	o, err := b.client.GetObject(ctx, b.name, b.prefix+e.name, minio.GetObjectOptions{})
	if err != nil {
		return nil, err
	}
	defer o.Close()
	if dir := path.Dir(e.name); dir != "." {
		if err := cache.MkdirAll(dir); err != nil {
			return nil, err
		}
	}
	err = cache.Replace(e.name, func(f *os.File) error {
		n, err := io.Copy(f, o)
		if err == nil && n != e.size { // it was replaced: the listing is old
			err = fmt.Errorf("%s: %w", e.name, fs.ErrNotExist)
		}
		if minio.ToErrorResponse(err).Code == "NoSuchKey" {
			err = fmt.Errorf("%s: %w", e.name, fs.ErrNotExist)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return cache.Open(e.name)
}

func (b *bucket) remove(ctx context.Context, names []string) (err error) {
	for _, name := range names {
		err = errors.Join(err, b.client.RemoveObject(ctx, b.name, b.prefix+name, minio.RemoveObjectOptions{}))
	}
	return err
}

// move copies within the service.
func (b *bucket) move(ctx context.Context, name, to string) error {
	if err := b.renew(ctx); err != nil {
		return err
	}
	_, err := b.client.CopyObject(ctx, minio.CopyDestOptions{Bucket: b.name, Object: b.prefix + to},
		minio.CopySrcOptions{Bucket: b.name, Object: b.prefix + name})
	if err != nil {
		return err
	}
	return b.remove(ctx, []string{name})
}

func (b *bucket) stage() *rootdir.Dir { return b.made }
func (b *bucket) text() string        { return "s3://" + b.name + "/" + strings.TrimSuffix(b.prefix, "/") }
func (b *bucket) close() error        { return errors.Join(b.giveLease(), b.made.Discard()) }

// CheckLocation says why a location can't be a lake's.
func CheckLocation(location string) error {
	if scheme, _, is := strings.Cut(location, "://"); is && scheme != "s3" {
		return errors.New("a lake is a directory or s3://BUCKET/PREFIX")
	}
	return nil
}

// openPlace opens a lake by its location: a directory, or s3://BUCKET/PREFIX.
func openPlace(ctx context.Context, location string, write bool) (place, error) {
	if strings.HasPrefix(location, "s3://") {
		return openBucket(ctx, location, write)
	}
	return openDirectory(location, write)
}
