package auth

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// handOut copies to a folder for each role, and one for the server, what it
// needs and nothing else: for machines and containers that must not see the
// rest. Credentials are those of the run that Init was last asked for, under the
// same names whichever it is. What is no longer there, such as a revoked one, goes.
func (a *authority) handOut() error {
	to := a.Settings.HandOut
	if to == "" {
		return nil
	}
	server := map[string]string{}
	for _, f := range append(a.configNames(), filepath.Join(jwtDir, accountsName), filepath.Join(tlsDir, serverCert),
		filepath.Join(tlsDir, serverKey), filepath.Join(tlsDir, caName)) {
		if a.has(f) { // there may be no CA
			server[f] = f
		}
	}
	if err := a.copies(filepath.Join(to, "nats"), server); err != nil {
		return err
	}
	for _, r := range Roles() {
		files := map[string]string{}
		for _, i := range a.Identities {
			if i.Role == r && i.Revoked == nil && (i.Run == "" || i.Run == a.Settings.HandRun) && a.has(i.File) {
				files[shortName(&i)] = i.File
			}
		}
		if err := a.copies(filepath.Join(to, string(r)), files); err != nil {
			return err
		}
	}
	return nil
}

// shortName is where the credential's file would be if its run were the first.
func shortName(i *Identity) string {
	if rest, ok := strings.CutPrefix(i.File, filepath.Join(credsDir, string(i.Run))+string(filepath.Separator)); ok && i.Run != "" {
		return filepath.Join(credsDir, rest)
	}
	return i.File
}

// copies makes a folder hold those files, each under its new name, and no other
// credential.
func (a *authority) copies(to string, files map[string]string) error {
	out := &dir{path: to}
	for name, from := range files {
		b, err := os.ReadFile(a.join(from))
		if err != nil {
			return fmt.Errorf("hand out %s: %w", from, err)
		}
		if have, err := os.ReadFile(out.join(name)); err == nil && bytes.Equal(have, b) {
			continue // whoever holds it goes on holding it
		}
		if err := out.write(name, b); err != nil {
			return err
		}
	}
	err := filepath.WalkDir(out.join(credsDir), func(p string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		name, err := filepath.Rel(to, p)
		if _, wanted := files[name]; err != nil || wanted {
			return err
		}
		return os.Remove(p)
	})
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("hand out to %s: %w", to, err)
	}
	return nil
}
