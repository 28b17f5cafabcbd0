package auth

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"

	"github.com/nats-io/nkeys"
)

// What Init makes in its folder.
const (
	keysDir   = "keys"  // secrets that sign; only auth reads them
	jwtDir    = "jwt"   // what the server learns of keys; public
	tlsDir    = "tls"   // certificates, and the server's key
	credsDir  = "creds" // one file a role; producers have a folder of their own
	credsExt  = ".creds"
	caName    = "ca.pem"
	stateName = "identities.json"
	lockName  = "lock"

	accountsName = "accounts.conf"
)

// dir is the folder that Init made, locked by this process.
type dir struct {
	path string
	lock *os.File
}

// openDir locks the folder and makes it, if it may.
func openDir(path string, create bool) (*dir, error) {
	if create {
		if err := os.MkdirAll(path, 0o700); err != nil {
			return nil, fmt.Errorf("make %s: %w", path, err)
		}
	}
	abs, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	if _, err := os.Stat(filepath.Join(abs, stateName)); !create && errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("%s is not a folder of keys: make one with `headrace auth init`", path)
	}
	lock, err := os.OpenFile(filepath.Join(abs, lockName), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock %s: %w", path, err)
	}
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		_ = lock.Close()
		return nil, fmt.Errorf("lock %s: %w", path, err)
	}
	return &dir{path: abs, lock: lock}, nil
}

func (d *dir) close() { _ = d.lock.Close() } // which unlocks it

func (d *dir) join(names ...string) string {
	return filepath.Join(append([]string{d.path}, names...)...)
}

// write replaces a file at once: mode 0600, in folders of mode 0700.
func (d *dir) write(name string, data []byte) error {
	path := d.join(name)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	tmp := path + ".tmp"
	if err := os.WriteFile(tmp, data, 0o600); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	if err := os.Rename(tmp, path); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return nil
}

func (d *dir) has(name string) bool {
	_, err := os.Stat(d.join(name))
	return err == nil
}

// key reads the key of that name or makes one of the kind.
func (d *dir) key(name string, make func() (nkeys.KeyPair, error)) (nkeys.KeyPair, error) {
	file := filepath.Join(keysDir, name+".nk")
	seed, err := os.ReadFile(d.join(file))
	if err == nil {
		k, err := nkeys.FromSeed(trim(seed))
		if err != nil {
			return nil, fmt.Errorf("read key %s: %w", d.join(file), err)
		}
		return k, nil
	}
	if !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("read key: %w", err)
	}
	k, err := make()
	if err != nil {
		return nil, fmt.Errorf("make key %s: %w", name, err)
	}
	if seed, err = k.Seed(); err != nil {
		return nil, fmt.Errorf("make key %s: %w", name, err)
	}
	return k, d.write(file, append(seed, '\n'))
}

func trim(b []byte) []byte {
	for len(b) > 0 && (b[len(b)-1] == '\n' || b[len(b)-1] == '\r' || b[len(b)-1] == ' ') {
		b = b[:len(b)-1]
	}
	return b
}

// state is what the folder knows of its credentials and settings; no secret.
type state struct {
	V          int        `json:"v"`
	System     string     `json:"system"` // public key of the system account
	Core       string     `json:"core"`   // public key of the account with the streams
	Settings   settings   `json:"settings"`
	Identities []Identity `json:"identities"`
}

func (d *dir) load() (*state, error) {
	s := &state{V: 1}
	b, err := os.ReadFile(d.join(stateName))
	if errors.Is(err, os.ErrNotExist) {
		return s, nil
	}
	if err == nil {
		err = json.Unmarshal(b, s)
	}
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", d.join(stateName), err)
	}
	return s, nil
}

func (d *dir) save(s *state) error {
	b, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return err
	}
	return d.write(stateName, append(b, '\n'))
}
