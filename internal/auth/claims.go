package auth

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"strings"
	"time"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nkeys"

	"github.com/headrace/headrace/subjects"
)

// Limits of an account that holds one credential: enough for any host's share
// of the role, too little to fill a server with connections.
const (
	maxConnections   = 16
	maxSubscriptions = 512
)

// answersFor is how long many answers to one question may take: whoever asks
// for tasks is told to ask again after a second.
const answersFor = 30 * time.Second

// exports are what roles with an account of their own may ask of the core, if
// their imports name it. Answers that are many are of type stream.
var exports = []struct {
	subject  string
	response jwt.ResponseType
}{
	{jsAPI + "STREAM.INFO.*", jwt.ResponseTypeSingleton},
	{jsAPI + "STREAM.MSG.GET.*", jwt.ResponseTypeSingleton},
	{jsAPI + "DIRECT.GET.*", jwt.ResponseTypeStream},
	{jsAPI + "DIRECT.GET.*.>", jwt.ResponseTypeSingleton},
	{jsAPI + "CONSUMER.INFO.*." + subjects.TaskConsumer, jwt.ResponseTypeSingleton},
	{subjects.Run("*").LeaseSubject("*"), jwt.ResponseTypeStream},
	{"$JS.ACK.>", jwt.ResponseTypeSingleton},
	{subjects.BucketSubject("*", ">"), jwt.ResponseTypeSingleton},
	{subjects.Run("*").Filter(subjects.Rollouts), jwt.ResponseTypeSingleton},
	{subjects.Run("*").Filter(subjects.Weights), jwt.ResponseTypeSingleton},
	{subjects.Run("*").Filter(subjects.Telemetry), jwt.ResponseTypeSingleton},
}

// operatorJWT is the operator's own, made once: it names the key that signs
// accounts and the system account.
func (a *authority) operatorJWT() (string, error) {
	name := filepath.Join(jwtDir, "operator.jwt")
	if b, err := os.ReadFile(a.join(name)); err == nil {
		return strings.TrimSpace(string(b)), nil
	}
	root, err := a.key("operator", nkeys.CreateOperator)
	if err != nil {
		return "", err
	}
	public, err := root.PublicKey()
	if err != nil {
		return "", err
	}
	c := jwt.NewOperatorClaims(public)
	c.Name, c.SystemAccount, c.StrictSigningKeyUsage = "headrace", a.System, true
	c.SigningKeys.Add(a.signerPublic)
	text, err := c.Encode(root)
	if err != nil {
		return "", fmt.Errorf("sign operator: %w", err)
	}
	return text, a.write(name, []byte(text+"\n"))
}

// coreJWT is the account with the streams.
func (a *authority) coreJWT() (string, error) {
	c := jwt.NewAccountClaims(a.Core)
	c.Name = "headrace"
	c.Limits.DisallowBearer = true
	c.Limits.JetStreamLimits = jwt.JetStreamLimits{MemoryStorage: jwt.NoLimit, DiskStorage: jwt.NoLimit, Streams: jwt.NoLimit, Consumer: jwt.NoLimit}
	for _, e := range exports {
		x := &jwt.Export{Subject: jwt.Subject(e.subject), Type: jwt.Service, ResponseType: e.response}
		if e.response == jwt.ResponseTypeStream {
			x.ResponseThreshold = answersFor
		}
		c.Exports.Add(x)
	}
	for _, r := range Roles() {
		if !r.apart() {
			if err := a.scope(c, r); err != nil {
				return "", err
			}
		}
	}
	for _, i := range a.Identities {
		if i.Revoked != nil && !i.Role.apart() {
			c.RevokeAt(i.User, *i.Revoked)
		}
	}
	return a.sign("core", c)
}

// edgeJWT is the account of one credential: an import for each thing that its
// role may do, for its run and name.
func (a *authority) edgeJWT(i *Identity) (string, error) {
	c := jwt.NewAccountClaims(i.Account)
	c.Name = i.Name
	c.Limits.DisallowBearer = true
	c.Limits.Conn, c.Limits.LeafNodeConn, c.Limits.Subs, c.Limits.Exports = maxConnections, 0, maxSubscriptions, 0
	for _, s := range permissions(i.Role).publish {
		s = fill(s, i.Run, i.Name)
		c.Imports.Add(&jwt.Import{Account: a.Core, Subject: jwt.Subject(s), LocalSubject: renamed(local(s)), Type: jwt.Service})
	}
	if err := a.scope(c, i.Role); err != nil {
		return "", err
	}
	if i.Revoked != nil {
		c.RevokeAt(i.User, *i.Revoked)
	}
	return a.sign(i.Name, c)
}

// renamed numbers the wildcards of a subject, as imports want them.
func renamed(subject string) jwt.RenamingSubject {
	tokens, n := strings.Split(subject, "."), 0
	for i, t := range tokens {
		if t == "*" {
			n++
			tokens[i] = fmt.Sprintf("$%d", n)
		}
	}
	return jwt.RenamingSubject(strings.Join(tokens, "."))
}

// scope lets the role's key sign users of the account, with the role's rights.
func (a *authority) scope(c *jwt.AccountClaims, r Role) error {
	k, err := a.key(string(r), nkeys.CreateAccount)
	if err != nil {
		return err
	}
	s := jwt.NewUserScope()
	if s.Key, err = k.PublicKey(); err != nil {
		return err
	}
	s.Role = string(r)
	g := permissions(r)
	s.Template.Sub.Allow = g.subscribe
	for _, p := range g.publish {
		if r.apart() {
			p = local(p)
		}
		s.Template.Pub.Allow.Add(p)
	}
	c.SigningKeys.AddScopedSigner(s)
	return nil
}

// sign writes the account's JWT, unless the one that is there says the same.
func (a *authority) sign(name string, c *jwt.AccountClaims) (string, error) {
	sort.Sort(c.Imports) // as signing would, to compare
	sort.Sort(c.Exports)
	results := jwt.CreateValidationResults()
	c.Validate(results)
	if errs := results.Errors(); len(errs) > 0 {
		return "", fmt.Errorf("account %s: %w", name, errs[0])
	}
	file := filepath.Join(jwtDir, c.Subject+".jwt")
	if old, err := os.ReadFile(a.join(file)); err == nil {
		text := strings.TrimSpace(string(old))
		if have, err := jwt.DecodeAccountClaims(text); err == nil && have.Issuer == a.signerPublic && same(have, c) {
			return text, nil
		}
	}
	text, err := c.Encode(a.signer)
	if err != nil {
		return "", fmt.Errorf("sign account %s: %w", name, err)
	}
	a.changed = true
	return text, a.write(file, []byte(text+"\n"))
}

// same reports whether two accounts say the same, whenever they were signed.
func same(a, b *jwt.AccountClaims) bool {
	x, y := a.Account, b.Account
	x.GenericFields, y.GenericFields = jwt.GenericFields{}, jwt.GenericFields{} // which signing fills in
	left, err := json.Marshal(&x)
	if err != nil {
		return false
	}
	right, err := json.Marshal(&y)
	return err == nil && a.Name == b.Name && bytes.Equal(left, right)
}

// accounts writes what the server needs to know of all accounts.
func (a *authority) accounts() error {
	operator, err := a.operatorJWT()
	if err != nil {
		return err
	}
	system := jwt.NewAccountClaims(a.System)
	system.Name = "system"
	preload := []string{}
	add := func(public, text string, err error) error {
		preload = append(preload, "  "+public+": "+text)
		return err
	}
	text, err := a.sign("system", system)
	if err := add(a.System, text, err); err != nil {
		return err
	}
	text, err = a.coreJWT()
	if err := add(a.Core, text, err); err != nil {
		return err
	}
	for i := range a.Identities {
		id := &a.Identities[i]
		if !id.Role.apart() {
			continue
		}
		text, err = a.edgeJWT(id)
		if err := add(id.Account, text, err); err != nil {
			return err
		}
	}
	slices.Sort(preload)
	return a.write(filepath.Join(jwtDir, accountsName), fmt.Appendf(nil, `# Written by headrace auth; nats.conf includes it. No secret is in it.
operator: %s
system_account: %s
resolver: MEMORY
resolver_preload {
%s
}
`, operator, a.System, strings.Join(preload, "\n")))
}
