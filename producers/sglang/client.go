package sglang

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/headrace/headrace/producers"
)

// Options configure a [Client].
type Options struct {
	// URL of the engine, such as http://127.0.0.1:30000. Required.
	URL string
	// Name of the engine in completions. Default: the URL's host.
	Name string
	// Vocab is the number of ids the engine may be sent. Required for Generate.
	Vocab int
	// MaxConns bounds the connections, kept alive between calls. Default 4096.
	MaxConns int
	// MaxAnswerBytes bounds an answer. Default 64 MiB.
	MaxAnswerBytes int64
}

const (
	defaultMaxConns  = 4096
	defaultMaxAnswer = 64 << 20
	maxErrorText     = 300
	maxAborts        = 64 // abort requests on their way at once
	abortTimeout     = 2 * time.Second
)

// Client talks to one engine. It is safe for concurrent use by thousands of
// goroutines; Close it.
type Client struct {
	opts   Options
	base   string
	http   *http.Client
	tries  atomic.Uint64
	prefix string // of request ids: unique to this client
	ctx    context.Context
	stop   context.CancelFunc
	aborts sync.WaitGroup
	slots  chan struct{}
}

// New makes a client. It does not connect.
func New(o Options) (*Client, error) {
	u, err := url.Parse(o.URL)
	if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" {
		return nil, fmt.Errorf("engine address %q: want http://host:port", o.URL)
	}
	if o.Name == "" {
		o.Name = u.Host
	}
	if o.MaxConns <= 0 {
		o.MaxConns = defaultMaxConns
	}
	if o.MaxAnswerBytes <= 0 {
		o.MaxAnswerBytes = defaultMaxAnswer
	}
	c := &Client{opts: o, base: strings.TrimSuffix(u.String(), "/"), slots: make(chan struct{}, maxAborts),
		prefix: strconv.FormatInt(time.Now().UnixNano(), 36) + "-"}
	c.ctx, c.stop = context.WithCancel(context.Background())
	c.http = &http.Client{Transport: &http.Transport{
		DialContext:         (&net.Dialer{Timeout: 5 * time.Second, KeepAlive: 30 * time.Second}).DialContext,
		MaxConnsPerHost:     o.MaxConns,
		MaxIdleConns:        o.MaxConns,
		MaxIdleConnsPerHost: o.MaxConns,
		IdleConnTimeout:     90 * time.Second,
		DisableCompression:  true, // answers are short, engines near
		ForceAttemptHTTP2:   false,
	}}
	return c, nil
}

// Name is the engine's name.
func (c *Client) Name() string { return c.opts.Name }

// Close waits for aborts on their way and closes idle connections. Calls that
// run are not interrupted: end their contexts.
func (c *Client) Close() error {
	c.stop()
	c.aborts.Wait()
	c.http.CloseIdleConnections()
	return nil
}

// buffers are reused for requests and answers.
var buffers = sync.Pool{New: func() any { return new(bytes.Buffer) }}

const keepBuffer = 1 << 20 // larger buffers are left to the collector

func takeBuffer() *bytes.Buffer {
	b := buffers.Get().(*bytes.Buffer)
	b.Reset()
	return b
}

func giveBuffer(b *bytes.Buffer) {
	if b.Cap() <= keepBuffer {
		buffers.Put(b)
	}
}

// Generate is [producers.Policy]. It makes one attempt: what may be tried again
// is ErrUnavailable, ErrOverloaded or ErrAborted. When ctx ends first the
// engine is told to give the call up.
func (c *Client) Generate(ctx context.Context, r producers.Request) (producers.Completion, error) {
	if err := c.check(r); err != nil {
		return producers.Completion{}, err
	}
	rid := c.prefix + strconv.FormatUint(c.tries.Add(1), 10)
	answer := takeBuffer()
	defer giveBuffer(answer)
	request := encode(make([]byte, 0, 512+8*len(r.IDs)), rid, r)
	if err := c.do(ctx, http.MethodPost, "/generate", request, answer); err != nil {
		if ctx.Err() != nil {
			c.abort(rid)
		}
		return producers.Completion{}, err
	}
	completion, err := decode(answer.Bytes(), c.opts.Vocab)
	if err != nil {
		return producers.Completion{}, fmt.Errorf("engine %s: %w", c.opts.Name, err)
	}
	completion.Engine = c.opts.Name
	return completion, nil
}

func (c *Client) check(r producers.Request) error {
	if len(r.IDs) == 0 || r.Sampling.MaxNewTokens < 1 {
		return fmt.Errorf("%w: %d prompt tokens, %d to sample", producers.ErrBadRequest, len(r.IDs), r.Sampling.MaxNewTokens)
	}
	for _, ids := range [][]int32{r.IDs, r.StopIDs} {
		for i, id := range ids {
			if uint32(id) >= uint32(c.opts.Vocab) {
				return fmt.Errorf("%w: id %d at %d, vocabulary %d", producers.ErrBadRequest, id, i, c.opts.Vocab)
			}
		}
	}
	return nil
}

// do sends a request and reads the answer of a success into answer. Any other
// outcome is an error of package producers, or the context's.
func (c *Client) do(ctx context.Context, method, path string, body []byte, answer *bytes.Buffer) error {
	return c.doUpTo(ctx, method, path, body, answer, c.opts.MaxAnswerBytes)
}

// doUpTo is do with a bound of its own on the answer, in bytes.
func (c *Client) doUpTo(ctx context.Context, method, path string, body []byte, answer *bytes.Buffer, most int64) error {
	request, err := http.NewRequestWithContext(ctx, method, c.base+path, bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("engine %s: %w", c.opts.Name, err)
	}
	if len(body) > 0 {
		request.Header["Content-Type"] = jsonType
	}
	response, err := c.http.Do(request)
	if err != nil {
		return c.unreachable(ctx, path, err)
	}
	defer response.Body.Close()
	n, err := answer.ReadFrom(io.LimitReader(response.Body, most+1))
	if err != nil {
		return c.unreachable(ctx, path, err)
	}
	if n > most {
		return fmt.Errorf("%w: engine %s: more than %d bytes", producers.ErrBadAnswer, c.opts.Name, most)
	}
	if response.StatusCode == http.StatusOK {
		return nil
	}
	return c.refusal(response, answer.String())
}

var jsonType = []string{"application/json"}

func (c *Client) unreachable(ctx context.Context, path string, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return fmt.Errorf("%w: %s: %s: %v", producers.ErrUnavailable, c.opts.Name, path, bare(err))
}

// bare strips what http.Client adds: method and URL.
func bare(err error) error {
	if u, ok := err.(*url.Error); ok { //nolint:errorlint // it is never wrapped
		return u.Err
	}
	return err
}

// abort tells the engine, in the background, to give a request up: one that is
// not streamed survives its client's disconnect.
func (c *Client) abort(rid string) {
	select {
	case c.slots <- struct{}{}:
	default:
		return // the engine has enough to do; the request ends by itself
	}
	c.aborts.Go(func() {
		defer func() { <-c.slots }()
		ctx, cancel := context.WithTimeout(c.ctx, abortTimeout)
		defer cancel()
		answer := takeBuffer()
		defer giveBuffer(answer)
		_ = c.do(ctx, http.MethodPost, "/abort_request", []byte(`{"rid":"`+rid+`"}`), answer) // best effort
	})
}
