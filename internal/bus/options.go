package bus

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/nats-io/nats.go"
	"github.com/rs/zerolog"
	"github.com/synadia-io/orbit.go/natscontext"

	"github.com/headrace/headrace/subjects"
)

// Options say which bus to connect to. What is not set comes from the
// environment (NATS_URL, NATS_CREDS, NATS_NKEY, NATS_USER, NATS_PASSWORD,
// NATS_TOKEN, NATS_CERT, NATS_KEY, NATS_CA, NATS_CONTEXT), then from the named or
// selected context of the nats CLI, then is nats://127.0.0.1:4222.
type Options struct {
	// URL of the server, or several separated by commas.
	URL string
	// Creds is the path of a credentials file, or of a folder of them: the first
	// that no other process on this host has taken.
	Creds string
	// CA is the path of the certificates to trust. Default NATS_CA, a ca.pem
	// beside the credentials, those in the credentials file, the system's.
	CA string
	// Context names a context of the nats CLI.
	Context string
	// CredentialsFile is the path of a file an embedded server wrote; it gives
	// URL, User and Password where they are not set.
	CredentialsFile string
	// Mute drops the gauges and spans that the holder would publish: to measure what
	// they cost. A run whose producers say nothing is one that nobody plays.
	Mute bool
	// Name of the connection as the server's operator sees it.
	Name string
	// InboxPrefix replaces _INBOX where permissions ask for it. Credentials that
	// headrace auth made bring their own.
	InboxPrefix string
	// InProcess connects to a server in this process, without a socket.
	InProcess nats.InProcessConnProvider
	// User and Password; never logged.
	User, Password string
	Log            zerolog.Logger
	cred           *credential // settled by Identify
}

// dialed is a fresh connection and what was learnt on the way.
type dialed struct {
	nc      *nats.Conn
	servers string // where it connected to, or tried
	api     string // prefix of the JetStream API's subjects
	cred    *credential
	taken   bool // cred was taken by this dial
}

// dial connects: flag over environment over context over default.
func (o Options) dial(common []nats.Option) (dialed, error) {
	if o.CredentialsFile != "" {
		if err := o.readCredentials(); err != nil {
			return dialed{}, err
		}
	}
	d := dialed{api: jsAPI}
	var err error
	if o.InProcess != nil || o.User != "" { // with own credentials a context's are none of this server's business
		d.servers = first(o.URL, os.Getenv("NATS_URL"), nats.DefaultURL)
		d.nc, err = nats.Connect(d.servers, append(o.own(), common...)...)
		return d, unreachable(d.servers, err)
	}
	taken := o.cred == nil
	if _, err := o.Identify(); err != nil {
		return dialed{}, err
	}
	if d, err = o.dialIdentified(common); err != nil {
		if taken {
			o.cred.release()
		}
		return d, err
	}
	if d.cred, d.taken = o.cred, taken; d.cred != nil && d.cred.api != "" {
		d.api = d.cred.api + "."
	}
	return d, nil
}

func (o Options) dialIdentified(common []nats.Option) (dialed, error) {
	env, err := o.environment()
	if err != nil {
		return dialed{}, err
	}
	return o.dialContext(append(append(env, o.own()...), common...))
}

// jsAPI is where JetStream answers unless a context says otherwise.
const jsAPI = "$JS.API."

// dialContext connects with a context of the nats CLI, the selected one or
// none where no name is given.
func (o Options) dialContext(options []nats.Option) (d dialed, err error) {
	name := first(o.Context, os.Getenv("NATS_CONTEXT"))
	override := first(o.URL, os.Getenv("NATS_URL"))
	loaded := false
	servers := func(opts *nats.Options) error { // runs after the context was read, before dialing
		loaded = true
		d.servers = first(override, strings.Join(opts.Servers, ","), nats.DefaultURL)
		opts.Servers = strings.Split(d.servers, ",")
		return nil
	}
	var s natscontext.Settings
	d.nc, s, err = natscontext.Connect(name, append(options, servers)...)
	switch {
	case err != nil && !loaded:
		return d, fmt.Errorf("read nats context %s: %w (see: nats context ls)", first(name, "(selected)"), err)
	case err != nil:
		return d, unreachable(d.servers, err)
	}
	d.api = apiPrefix(s)
	return d, nil
}

func apiPrefix(s natscontext.Settings) string {
	switch {
	case s.JSAPIPrefix != "":
		return strings.TrimSuffix(s.JSAPIPrefix, ".") + "."
	case s.JSDomain != "":
		return "$JS." + s.JSDomain + ".API."
	}
	return jsAPI
}

func first(values ...string) string {
	for _, v := range values {
		if v != "" {
			return v
		}
	}
	return ""
}

// own are the options that come from the fields alone.
func (o Options) own() []nats.Option {
	opts := []nats.Option{nats.Name(first(o.Name, "headrace"))}
	if o.User != "" {
		opts = append(opts, nats.UserInfo(o.User, o.Password))
	}
	prefix := o.InboxPrefix
	if prefix == "" && o.cred != nil && o.cred.Role != "" {
		prefix = subjects.InboxPrefix(o.cred.Name)
	}
	if prefix != "" {
		opts = append(opts, nats.CustomInboxPrefix(prefix))
	}
	if o.InProcess != nil {
		opts = append(opts, nats.InProcessServer(o.InProcess))
	}
	return opts
}

// environment are the options of the nats CLI's environment variables.
func (o Options) environment() ([]nats.Option, error) {
	var opts []nats.Option
	add := func(opt nats.Option) { opts = append(opts, opt) }
	if o.cred != nil {
		add(nats.UserCredentials(o.cred.file))
	}
	if seed := os.Getenv("NATS_NKEY"); seed != "" {
		nkey, err := nats.NkeyOptionFromSeed(home(seed))
		if err != nil {
			return nil, fmt.Errorf("read NATS_NKEY %s: %w", seed, err)
		}
		add(nkey)
	}
	if user := os.Getenv("NATS_USER"); user != "" && o.User == "" {
		add(nats.UserInfo(user, os.Getenv("NATS_PASSWORD")))
	}
	if token := os.Getenv("NATS_TOKEN"); token != "" {
		add(nats.Token(token))
	}
	if cert, key := os.Getenv("NATS_CERT"), os.Getenv("NATS_KEY"); cert != "" && key != "" {
		add(nats.ClientCert(home(cert), home(key)))
	}
	trust, err := o.trust()
	if err != nil {
		return nil, err
	}
	if trust != nil {
		add(nats.Secure(trust)) // and nothing else: a server without TLS is not believed
	}
	return opts, nil
}

// trust is how the server must prove itself, nil when nothing was said of it.
func (o Options) trust() (*tls.Config, error) {
	file, source := first(home(o.CA), home(os.Getenv("NATS_CA"))), "--ca, NATS_CA"
	if file == "" && o.cred != nil {
		file, source = besideCreds(o.cred.file), "found beside the credentials"
	}
	var pem []byte
	switch {
	case file != "":
		var err error
		if pem, err = os.ReadFile(file); err != nil {
			return nil, fmt.Errorf("read CA (%s): %w", source, err)
		}
	case o.cred != nil:
		pem = o.cred.ca
	}
	if len(pem) == 0 {
		return nil, nil
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("read CA %s (%s): there is no certificate in it", file, source)
	}
	return &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}, nil
}

func home(path string) string {
	if rest, ok := strings.CutPrefix(path, "~/"); ok {
		if dir, err := os.UserHomeDir(); err == nil {
			return filepath.Join(dir, rest)
		}
	}
	return path
}

func (o *Options) readCredentials() error {
	b, err := os.ReadFile(o.CredentialsFile)
	if err != nil {
		return fmt.Errorf("read credentials of the embedded server (is it running?): %w", err)
	}
	var c credentials
	if err := json.Unmarshal(b, &c); err != nil || c.URL == "" {
		return fmt.Errorf("read credentials %s: not a credentials file", o.CredentialsFile)
	}
	o.URL = first(o.URL, c.URL)
	if o.User == "" {
		o.User, o.Password = c.User, c.Password
	}
	return nil
}

// unreachable makes one line of why a connection failed, with what to do.
func unreachable(servers string, err error) error {
	if err == nil {
		return nil
	}
	e := &APIError{Op: "connect to", Subject: redact(servers), Kind: ErrUnreachable,
		Description: strings.TrimPrefix(err.Error(), "nats: ") + "; start a server (nats-server -js), or name one with --url or NATS_URL"}
	if errors.Is(err, nats.ErrAuthorization) || errors.Is(err, nats.ErrAuthExpired) || errors.Is(err, nats.ErrAuthRevoked) {
		e.Kind = ErrPermission
		e.Description = "the server refused the credentials; check --creds, NATS_CREDS, or NATS_USER and NATS_PASSWORD"
	}
	if why := untrusted(err); why != "" {
		e.Kind, e.Description = ErrUntrusted, why
	}
	return e
}

// untrusted says what is wrong between client and server about TLS, and what to
// do; empty when it is something else.
func untrusted(err error) string {
	var authority x509.UnknownAuthorityError
	var host x509.HostnameError
	var invalid x509.CertificateInvalidError
	var record tls.RecordHeaderError
	switch {
	case errors.As(err, &authority):
		return "its certificate is from a CA that is not trusted here; give the server's CA with --ca or NATS_CA (headrace auth init writes tls/ca.pem)"
	case errors.As(err, &host):
		return host.Error() + "; use a name that the certificate has, or make one with headrace auth init --host"
	case errors.As(err, &invalid):
		return invalid.Error() + "; run headrace auth init again to renew the server's certificate, then reload the server"
	case errors.Is(err, nats.ErrSecureConnWanted), errors.As(err, &record):
		return "the server does not speak TLS, and the credentials or --ca ask for it; this may be another server than the one you mean"
	case errors.Is(err, nats.ErrSecureConnRequired):
		return "the server wants TLS; give its CA with --ca or NATS_CA"
	}
	return ""
}

// redact takes passwords out of URLs.
func redact(servers string) string {
	list := strings.Split(servers, ",")
	for i, s := range list {
		if scheme, rest, ok := strings.Cut(s, "://"); ok {
			if at := strings.LastIndex(rest, "@"); at >= 0 {
				list[i] = scheme + "://" + rest[at+1:]
			}
		}
	}
	return strings.Join(list, ",")
}
