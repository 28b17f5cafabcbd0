package auth

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nkeys"

	"github.com/headrace/headrace/subjects"
)

// Identity is one credential, as the folder knows it. No secret is in it.
type Identity struct {
	Name    string       `json:"name"`
	Role    Role         `json:"role"`
	Run     subjects.Run `json:"run,omitempty"` // empty for admin
	User    string       `json:"user"`          // public key
	Account string       `json:"account"`       // public key of the account it is in
	File    string       `json:"file"`          // of its secret, within the folder
	Created time.Time    `json:"created"`
	Revoked *time.Time   `json:"revoked,omitempty"`
}

// Result is what a change did.
type Result struct {
	Dir string `json:"dir"`
	// Made are the new credentials.
	Made []Identity `json:"made"`
	// Reload is whether a running server must read its configuration again.
	Reload bool `json:"reload"`
	// Config are the server's configuration files.
	Config []string `json:"config"`
}

// authority is the folder with what signs.
type authority struct {
	*dir
	*state
	signer       nkeys.KeyPair // signs accounts
	signerPublic string
	ca           []byte // certificates clients should trust, PEM
	changed      bool   // an account or a certificate was signed
	fresh        bool   // the folder was made now
	made         []Identity
}

// open reads the folder; create makes it.
func open(path string, create bool) (*authority, error) {
	d, err := openDir(path, create)
	if err != nil {
		return nil, err
	}
	a := &authority{dir: d}
	if err := a.read(); err != nil {
		d.close()
		return nil, err
	}
	return a, nil
}

func (a *authority) read() (err error) {
	if a.state, err = a.load(); err != nil {
		return err
	}
	a.fresh = a.Core == ""
	if a.signer, err = a.key("operator-signing", nkeys.CreateOperator); err != nil {
		return err
	}
	if a.signerPublic, err = a.signer.PublicKey(); err != nil {
		return err
	}
	for _, public := range []*string{&a.System, &a.Core} {
		if *public == "" {
			if *public, err = freshAccount(); err != nil {
				return err
			}
		}
	}
	return nil
}

// freshAccount is the public key of a new account. Its secret is thrown away:
// the operator signs for it, and the roles' keys sign its users.
func freshAccount() (string, error) {
	k, err := nkeys.CreateAccount()
	if err != nil {
		return "", fmt.Errorf("make account: %w", err)
	}
	defer k.Wipe()
	return k.PublicKey()
}

// finish writes accounts and state, and hands out. The rest of the server's
// configuration is Init's: what somebody changed in it stays.
func (a *authority) finish() (*Result, error) {
	if err := a.accounts(); err != nil {
		return nil, err
	}
	if err := a.save(a.state); err != nil {
		return nil, err
	}
	var config []string
	for _, name := range a.configNames() {
		config = append(config, a.join(name))
	}
	return &Result{Dir: a.path, Made: a.made, Reload: a.changed && !a.fresh, Config: config}, a.handOut()
}

// Add makes one more credential.
func Add(dir string, role Role, name string, run subjects.Run) (*Result, error) {
	a, err := open(dir, false)
	if err != nil {
		return nil, err
	}
	defer a.close()
	if i := a.find(name); i != nil {
		return nil, fmt.Errorf("there is a credential %s already (%s of run %s): choose another name", name, i.Role, i.Run)
	}
	if a.ca, err = a.trusted(); err != nil {
		return nil, err
	}
	if err := a.issue(role, name, run, fileOf(role, name)); err != nil {
		return nil, err
	}
	return a.finish()
}

// Revoke ends a credential: the server refuses it once its configuration is
// read again. Its file is removed from the folder.
func Revoke(dir, name string) (*Result, error) {
	a, err := open(dir, false)
	if err != nil {
		return nil, err
	}
	defer a.close()
	i := a.find(name)
	if i == nil {
		return nil, fmt.Errorf("no credential %s in %s that is not revoked: `headrace auth ls` lists them", name, dir)
	}
	now := time.Now().UTC()
	i.Revoked = &now
	if err := a.remove(i.File); err != nil {
		return nil, err
	}
	return a.finish()
}

// List is every credential that was made, revoked ones included, by role and name.
func List(dir string) ([]Identity, error) {
	a, err := open(dir, false)
	if err != nil {
		return nil, err
	}
	defer a.close()
	slices.SortStableFunc(a.Identities, func(x, y Identity) int {
		if c := strings.Compare(string(x.Run), string(y.Run)); c != 0 {
			return c
		}
		if c := slices.Index(Roles(), x.Role) - slices.Index(Roles(), y.Role); c != 0 {
			return c
		}
		return strings.Compare(x.Name, y.Name)
	})
	return a.Identities, nil
}

// find is the credential of that name that is not revoked.
func (a *authority) find(name string) *Identity {
	for i := range a.Identities {
		if a.Identities[i].Name == name && a.Identities[i].Revoked == nil {
			return &a.Identities[i]
		}
	}
	return nil
}

func fileOf(role Role, name string) string {
	if role == Producer {
		return filepath.Join(credsDir, "producers", name+credsExt)
	}
	return filepath.Join(credsDir, name+credsExt)
}

// issue makes a credential and writes its file.
func (a *authority) issue(role Role, name string, run subjects.Run, file string) error {
	if !subjects.ValidToken(name) {
		return fmt.Errorf("name %q: want letters, digits, - and _", name)
	}
	if name == subjects.RequeueProducer {
		return fmt.Errorf("name %q: dead letters that are requeued come under it; choose another", name)
	}
	if !role.bound() {
		run = ""
	} else if err := run.Validate(); err != nil {
		return err
	}
	i := Identity{Name: name, Role: role, Run: run, Account: a.Core, File: file, Created: time.Now().UTC()}
	user, err := nkeys.CreateUser()
	if err != nil {
		return fmt.Errorf("make key of %s: %w", name, err)
	}
	defer user.Wipe()
	if i.User, err = user.PublicKey(); err != nil {
		return err
	}
	if role.apart() {
		if i.Account, err = freshAccount(); err != nil {
			return err
		}
	}
	text, err := a.userJWT(&i)
	if err != nil {
		return err
	}
	seed, err := user.Seed()
	if err != nil {
		return err
	}
	creds, err := jwt.FormatUserConfig(text, seed)
	if err != nil {
		return fmt.Errorf("write credential %s: %w", name, err)
	}
	if err := a.write(file, append(creds, a.ca...)); err != nil { // whoever has the file needs no other
		return err
	}
	a.Identities = append(a.Identities, i)
	a.made = append(a.made, i)
	return nil
}

// userJWT names the credential, and says what its process needs to know.
func (a *authority) userJWT(i *Identity) (string, error) {
	signer, err := a.key(string(i.Role), nkeys.CreateAccount)
	if err != nil {
		return "", err
	}
	c := jwt.NewUserClaims(i.User)
	c.Name, c.IssuerAccount = i.Name, i.Account
	c.SetScoped(true)
	c.Tags.Add("role:" + string(i.Role))
	if i.Run != "" {
		c.Tags.Add("run:" + string(i.Run))
	}
	if i.Role.apart() {
		c.Tags.Add("api:" + subjects.EdgeAPI)
	}
	text, err := c.Encode(signer)
	if err != nil {
		return "", fmt.Errorf("sign credential %s: %w", i.Name, err)
	}
	return text, nil
}
