package lake

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"

	"github.com/memgauge/memgauge/internal/remedy"
)

// bucket is a place in S3. Its readers need no lock; its one writer has a lease (see leaseTime).
type bucket struct {
	client *minio.Client
	name   string
	prefix string // "" or ends in a slash
	made   string // the stage
	held   held   // by a writer
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
	made, err := os.MkdirTemp("", "memgauge-lake-") // 0700
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
			_ = os.RemoveAll(made)
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

// put is durable with the service's answer.
func (b *bucket) put(ctx context.Context, name, from string) error {
	if err := b.renew(ctx); err != nil {
		return err
	}
	if _, err := b.client.FPutObject(ctx, b.name, b.prefix+name, from, minio.PutObjectOptions{}); err != nil {
		return err
	}
	return os.Remove(from)
}

func (b *bucket) open(ctx context.Context, name string) (readable, error) {
	o, err := b.client.GetObject(ctx, b.name, b.prefix+name, minio.GetObjectOptions{})
	if err != nil {
		return nil, err
	}
	return o, nil
}

// local downloads a file unless the cache has it: a file of a lake never changes, but for one that a merge makes anew.
func (b *bucket) local(ctx context.Context, e entry, cache string) (string, error) {
	path := filepath.Join(cache, filepath.FromSlash(e.name))
	if info, err := os.Stat(path); err == nil && info.Size() == e.size && !info.ModTime().Before(e.modified) {
		return path, nil
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return "", err
	}
	err := b.client.FGetObject(ctx, b.name, b.prefix+e.name, path, minio.GetObjectOptions{})
	if minio.ToErrorResponse(err).Code == "NoSuchKey" {
		return "", fmt.Errorf("%s: %w", e.name, fs.ErrNotExist)
	}
	return path, err
}

func (b *bucket) remove(ctx context.Context, names []string) (err error) {
	for _, name := range names {
		err = errors.Join(err, b.client.RemoveObject(ctx, b.name, b.prefix+name, minio.RemoveObjectOptions{}))
	}
	return err
}

func (b *bucket) stage() string { return b.made }
func (b *bucket) text() string  { return "s3://" + b.name + "/" + strings.TrimSuffix(b.prefix, "/") }
func (b *bucket) close() error  { return errors.Join(b.giveLease(), os.RemoveAll(b.made)) }

// openPlace opens a lake by its location: a directory, or s3://BUCKET/PREFIX.
func openPlace(ctx context.Context, location string, write bool) (place, error) {
	if strings.HasPrefix(location, "s3://") {
		return openBucket(ctx, location, write)
	}
	return openDirectory(location, write)
}
