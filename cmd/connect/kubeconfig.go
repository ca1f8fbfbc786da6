package connect

import (
	"crypto/sha256"
	"io"
	"net/http"
	"os"
	"slices"
	"sync"
	"time"

	"k8s.io/client-go/rest"
)

// lookEvery is how long a request relies on the last check of the kubeconfig for changes. After an answer 401 it is
// checked at once.
const lookEvery = 10 * time.Second

// following returns a copy of config. Requests by the copy use the present credentials of the kubeconfig in
// files, so that an operator can change them under a running worker. A kubeconfig that names another server
// is ignored: a worker stays with its cluster. If none of files exists, following returns config itself:
// client-go follows the token file of a pod.
func following(config *rest.Config, load func() (*rest.Config, error), files []string) (*rest.Config, error) {
	if !slices.ContainsFunc(files, exists) {
		return config, nil
	}
	if config.CAFile != "" { // client-go itself follows the files of certificate, key and token
		files = append(slices.Clone(files), config.CAFile)
	}
	c := &credentials{load: load, files: files, now: time.Now}
	c.sum, c.looked = c.read(), c.now()
	config, err := load() // again, after the sum: a later change of the files is noticed
	if err != nil {
		return nil, err
	}
	server, _, err := rest.DefaultServerUrlFor(config)
	if err != nil {
		return nil, err
	}
	c.host = config.Host
	if c.transport, err = rest.TransportFor(config); err != nil {
		return nil, err
	}
	out := rest.AnonymousClientConfig(config)
	out.TLSClientConfig, out.Dial, out.Proxy, out.Transport, out.Host = rest.TLSClientConfig{}, nil, nil, c, server.String()
	return out, nil
}

func exists(file string) bool { _, err := os.Stat(file); return err == nil }

// credentials is a transport with the present credentials of a kubeconfig.
type credentials struct {
	load  func() (*rest.Config, error)
	host  string
	files []string
	now   func() time.Time

	mu        sync.Mutex
	transport http.RoundTripper
	sum       [sha256.Size]byte
	looked    time.Time
}

// RoundTrip sends a request. If the server answers 401 and the kubeconfig has new credentials, it sends the
// request once more with these, unless the body cannot be sent twice.
func (c *credentials) RoundTrip(r *http.Request) (*http.Response, error) {
	transport := c.current(c.now().Add(-lookEvery))
	resp, err := transport.RoundTrip(r)
	if err != nil || resp.StatusCode != http.StatusUnauthorized {
		return resp, err
	}
	anew := c.current(c.now())
	if anew == transport || r.Body != nil && r.GetBody == nil {
		return resp, nil
	}
	again := r.Clone(r.Context())
	if r.GetBody != nil {
		if again.Body, err = r.GetBody(); err != nil {
			_ = resp.Body.Close()
			return nil, err
		}
	}
	_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, 64<<10))
	_ = resp.Body.Close()
	return anew.RoundTrip(again)
}

// current returns the transport for the present kubeconfig. It reads the files, unless the last reading is later
// than before. If they cannot be used, for example while one is being written, or if they name another server,
// the credentials stay as they are.
func (c *credentials) current(before time.Time) http.RoundTripper {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.looked.After(before) {
		return c.transport
	}
	c.looked = c.now()
	sum := c.read()
	if sum == c.sum {
		return c.transport
	}
	config, err := c.load()
	if err != nil || config.Host != c.host {
		return c.transport
	}
	transport, err := rest.TransportFor(config)
	if err != nil {
		return c.transport
	}
	c.sum, c.transport = sum, transport
	return transport
}

// read returns a checksum of the files' contents. It skips files that it cannot read.
func (c *credentials) read() (sum [sha256.Size]byte) {
	h := sha256.New()
	for _, file := range c.files {
		content, err := os.ReadFile(file)
		if err != nil {
			continue
		}
		_, _ = h.Write(content)
		_, _ = h.Write([]byte{0})
	}
	h.Sum(sum[:0])
	return sum
}
