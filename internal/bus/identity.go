package bus

import (
	"cmp"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/nats-io/jwt/v2"

	"github.com/headrace/headrace/subjects"
)

// Identity is what a credentials file says of its holder. Files that headrace
// auth did not make have a name at most.
type Identity struct {
	Name string
	Role string
	Run  subjects.Run
	api  string // where JetStream answers, if not in the usual place
	ca   []byte // certificates to trust, PEM
}

// String is for people.
func (i Identity) String() string {
	switch {
	case i.Role == "":
		return cmp.Or(i.Name, "this user")
	case i.Run == "":
		return fmt.Sprintf("%s (%s)", i.Name, i.Role)
	}
	return fmt.Sprintf("%s (%s of run %s)", i.Name, i.Role, i.Run)
}

// credential is the credentials file in use.
type credential struct {
	file string
	Identity
	unlock func() // nil if the file did not come from a folder
}

func (c *credential) release() {
	if c != nil && c.unlock != nil {
		c.unlock()
	}
}

// Identify settles which credentials file is used, Creds or NATS_CREDS, and
// says whose it is. Of a folder it takes the first file that no other process
// on this host has taken, and keeps it until this process ends. Without a
// file the identity is empty.
func (o *Options) Identify() (Identity, error) {
	if o.cred != nil {
		return o.cred.Identity, nil
	}
	path := home(first(o.Creds, os.Getenv("NATS_CREDS")))
	if path == "" || o.InProcess != nil || o.User != "" || o.CredentialsFile != "" {
		return Identity{}, nil
	}
	c, err := takeCredential(path)
	if err != nil {
		return Identity{}, err
	}
	o.cred = c
	return c.Identity, nil
}

func takeCredential(path string) (*credential, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("read credentials (--creds, NATS_CREDS): %w", err)
	}
	if !info.IsDir() {
		id, err := readIdentity(path)
		return &credential{file: path, Identity: id}, err
	}
	files, err := filepath.Glob(filepath.Join(path, "*.creds"))
	if err != nil || len(files) == 0 {
		return nil, fmt.Errorf("read credentials: there is no .creds file in %s", path)
	}
	slices.Sort(files)
	for _, file := range files {
		unlock, err := holdFile(file)
		if errors.Is(err, syscall.EWOULDBLOCK) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("take credentials %s: %w", file, err)
		}
		id, err := readIdentity(file)
		if err != nil {
			unlock()
			return nil, err
		}
		return &credential{file: file, Identity: id, unlock: unlock}, nil
	}
	return nil, fmt.Errorf("all %d credentials in %s are taken by processes on this host; make another: headrace auth add", len(files), path)
}

func readIdentity(file string) (Identity, error) {
	b, err := os.ReadFile(file)
	if err != nil {
		return Identity{}, fmt.Errorf("read credentials: %w", err)
	}
	defer clear(b) // there is a secret in it
	token, err := jwt.ParseDecoratedJWT(b)
	if err != nil {
		return Identity{}, fmt.Errorf("read credentials %s: %w", file, err)
	}
	claims, err := jwt.DecodeUserClaims(token)
	if err != nil {
		return Identity{}, fmt.Errorf("read credentials %s: this is no file of NATS credentials", file)
	}
	id := Identity{Name: claims.Name, ca: certificates(b)}
	for _, tag := range claims.Tags {
		key, value, _ := strings.Cut(tag, ":")
		switch key {
		case "role":
			id.Role = value
		case "run":
			id.Run = subjects.Run(value)
		case "api":
			id.api = value
		}
	}
	return id, nil
}

// certificates are the PEM blocks of that kind in a file.
func certificates(b []byte) (out []byte) {
	at := strings.Index(string(b), "-----BEGIN CERTIFICATE-----")
	if at < 0 {
		return nil
	}
	for block, rest := pem.Decode(b[at:]); block != nil; block, rest = pem.Decode(rest) {
		out = append(out, pem.EncodeToMemory(block)...)
	}
	return out
}

// besideCreds is a ca.pem near the credentials file: beside it, or in the tls
// folder of the folder that headrace auth made; empty when there is none.
func besideCreds(file string) string {
	dir := filepath.Dir(file)
	for _, p := range []string{dir, filepath.Join(dir, "tls"), filepath.Join(dir, "..", "tls"), filepath.Join(dir, "..", "..", "tls")} {
		p = filepath.Join(p, "ca.pem")
		if _, err := os.Stat(p); err == nil {
			return p
		}
	}
	return ""
}
