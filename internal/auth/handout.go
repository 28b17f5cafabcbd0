package auth

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
)

// handOut copies to a folder for each role, and one for the server, what it
// needs and nothing else: for machines and containers that must not see the
// rest. What is no longer there, such as a revoked credential, goes.
func (a *authority) handOut() error {
	to := a.Settings.HandOut
	if to == "" {
		return nil
	}
	server := []string{filepath.Join(jwtDir, "accounts.conf"), filepath.Join(tlsDir, serverCert), filepath.Join(tlsDir, serverKey)}
	server = append(server, a.configNames()...)
	if a.has(filepath.Join(tlsDir, caName)) {
		server = append(server, filepath.Join(tlsDir, caName))
	}
	if err := a.copies(filepath.Join(to, "nats"), server); err != nil {
		return err
	}
	for _, r := range Roles() {
		var files []string
		for _, i := range a.Identities {
			if i.Role == r && i.Revoked == nil && a.has(i.File) {
				files = append(files, i.File)
			}
		}
		if err := a.copies(filepath.Join(to, string(r)), files); err != nil {
			return err
		}
	}
	return nil
}

// copies makes a folder hold those files under the names they have here, and no
// other credential.
func (a *authority) copies(to string, files []string) error {
	out := &dir{path: to}
	for _, f := range files {
		b, err := os.ReadFile(a.join(f))
		if err != nil {
			return fmt.Errorf("hand out %s: %w", f, err)
		}
		if have, err := os.ReadFile(out.join(f)); err == nil && slices.Equal(have, b) {
			continue // whoever holds it goes on holding it
		}
		if err := out.write(f, b); err != nil {
			return err
		}
	}
	err := filepath.WalkDir(out.join(credsDir), func(p string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		name, err := filepath.Rel(to, p)
		if err != nil || slices.Contains(files, name) {
			return err
		}
		return os.Remove(p)
	})
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("hand out to %s: %w", to, err)
	}
	return nil
}
