package auth

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/headrace/headrace/subjects"
)

// Options are what Init is told.
type Options struct {
	// Dir is the folder to make, or to add to.
	Dir string
	// Run the credentials are for.
	Run subjects.Run
	// Producers is how many credentials producers get. Default 32.
	Producers int
	// Hosts are the names and addresses under which clients reach the server;
	// 127.0.0.1 and localhost are always among them.
	Hosts []string
	// Store is where the server keeps its streams. Default /data.
	Store string
	// ServerDir is Dir as the server sees it. Default Dir itself, or HandOut.
	ServerDir string
	// HandOut, when set, is a folder that gets one for the server, nats, and one
	// for each role, with what it needs and nothing else.
	HandOut string
	// Port clients connect to. Default 4222.
	Port int
	// Cluster are the names of the nodes of a cluster, as the nodes reach each
	// other; empty for a single server.
	Cluster []string
	// Cert, Key and CA are the user's own files; CA is what clients should
	// trust. Empty: a CA and a certificate are made.
	Cert, Key, CA string
}

// settings are the options that later runs of Init keep unless told otherwise.
type settings struct {
	Hosts     []string     `json:"hosts,omitempty"`
	Store     string       `json:"store"`
	ServerDir string       `json:"server_dir"`
	HandOut   string       `json:"hand_out,omitempty"`
	HandRun   subjects.Run `json:"hand_run,omitempty"` // whose credentials are handed out
	Port      int          `json:"port"`
	Cluster   []string     `json:"cluster,omitempty"`
	Cert      string       `json:"cert,omitempty"`
	Key       string       `json:"key,omitempty"`
	CA        string       `json:"ca,omitempty"`
	Run       subjects.Run `json:"run"` // the first: its credentials have the short names
}

// Init makes the folder, or adds what is missing in it: keys and credentials
// that are there stay, one that was revoked is made anew. The server's
// configuration is written again.
func Init(o Options) (*Result, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	a, err := open(o.Dir, true)
	if err != nil {
		return nil, err
	}
	defer a.close()
	a.settle(o)
	if err := a.certify(); err != nil {
		return nil, err
	}
	if a.ca, err = a.trusted(); err != nil {
		return nil, err
	}
	if err := a.provide(o); err != nil {
		return nil, err
	}
	if err := a.pin(); err != nil {
		return nil, err
	}
	if err := a.config(); err != nil {
		return nil, err
	}
	return a.finish()
}

// pin makes the credentials that are there name the CA of now, in their file
// and beside it.
func (a *authority) pin() error {
	beside := []string{filepath.Join(credsDir, caName), filepath.Join(credsDir, "producers", caName)}
	if len(a.ca) == 0 {
		beside = append(beside, filepath.Join(tlsDir, caName))
	}
	for _, file := range beside {
		change := func() error { return a.write(file, a.ca) }
		if len(a.ca) == 0 {
			change = func() error { return a.remove(file) }
		}
		if err := change(); err != nil {
			return err
		}
	}
	for _, i := range a.Identities {
		b, err := os.ReadFile(a.join(i.File))
		if i.Revoked != nil || errors.Is(err, os.ErrNotExist) { // it was given away
			continue
		}
		if err != nil {
			return fmt.Errorf("read credential: %w", err)
		}
		secret, _, _ := bytes.Cut(b, []byte(certificate))
		if now := slices.Concat(secret, a.ca); !bytes.Equal(now, b) {
			if err := a.write(i.File, now); err != nil {
				return err
			}
		}
	}
	return nil
}

// certificate begins what follows the secret in a credentials file.
const certificate = "-----BEGIN CERTIFICATE-----"

func (o *Options) check() error {
	if o.Dir == "" {
		return errors.New("which folder? name it")
	}
	if err := o.Run.Validate(); err != nil {
		return err
	}
	if (o.Cert == "") != (o.Key == "") {
		return errors.New("a certificate of your own needs both files, certificate and key")
	}
	if o.CA != "" && o.Cert == "" {
		return errors.New("a CA of your own needs the server's certificate and key too")
	}
	if n := len(o.Cluster); n != 0 && n < 3 {
		return fmt.Errorf("a cluster of %d cannot lose a node: name three", n)
	}
	if o.Producers == 0 {
		o.Producers = 32
	}
	return nil
}

// settle merges the options into the folder's settings.
func (a *authority) settle(o Options) {
	s := &a.Settings
	for _, h := range slices.Concat(o.Hosts, o.Cluster) {
		if !slices.Contains(s.Hosts, h) {
			s.Hosts = append(s.Hosts, h)
		}
	}
	set := func(field *string, value, fallback string) {
		if value != "" {
			*field = value
		} else if *field == "" {
			*field = fallback
		}
	}
	set(&s.Store, o.Store, "/data")
	set(&s.HandOut, o.HandOut, "")
	set(&s.ServerDir, cmp.Or(o.ServerDir, o.HandOut), a.path)
	set(&s.Cert, o.Cert, "")
	set(&s.Key, o.Key, "")
	set(&s.CA, o.CA, "")
	if s.Port = max(o.Port, s.Port); s.Port == 0 {
		s.Port = 4222
	}
	if len(o.Cluster) > 0 {
		s.Cluster = o.Cluster
	}
	if s.Run == "" {
		s.Run = o.Run
	}
	s.HandRun = o.Run
}

// provide makes the credentials of a run that are missing. Those of the first
// run are named after their role, others have the run's name before it.
func (a *authority) provide(o Options) error {
	prefix, folder := "", credsDir
	if o.Run != a.Settings.Run {
		prefix, folder = string(o.Run)+"-", filepath.Join(credsDir, string(o.Run))
	}
	need := func(role Role, name, folder string) error {
		if a.find(prefix+name) != nil {
			return nil
		}
		return a.issue(role, prefix+name, o.Run, filepath.Join(folder, name+credsExt))
	}
	if a.find(string(Admin)) == nil {
		if err := a.issue(Admin, string(Admin), "", fileOf(Admin, string(Admin))); err != nil {
			return err
		}
	}
	for _, role := range []Role{Grouper, Trainer, Engine, Viewer} {
		if err := need(role, string(role), folder); err != nil {
			return err
		}
	}
	for n := range o.Producers {
		if err := need(Producer, fmt.Sprintf("p%02d", n+1), filepath.Join(folder, "producers")); err != nil {
			return err
		}
	}
	return nil
}

func (a *authority) remove(file string) error {
	if err := os.Remove(a.join(file)); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("remove: %w", err)
	}
	return nil
}
