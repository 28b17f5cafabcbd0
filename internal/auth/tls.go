package auth

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"slices"
	"time"
)

const (
	caYears     = 10
	serverYears = 2
	renewBefore = 30 * 24 * time.Hour
	serverCert  = "server.pem"
	serverKey   = "server.key"
	caKey       = "ca.key"
)

// certify provides the server's certificate: the user's own, or one of our CA
// that names every host and is good for a month at least.
func (a *authority) certify() error {
	if s := &a.Settings; s.Cert != "" {
		return a.adopt(s.Cert, s.Key, s.CA)
	}
	ca, key, err := a.authorityCert()
	if err != nil {
		return err
	}
	hosts := append([]string{"localhost", "127.0.0.1", "::1"}, a.Settings.Hosts...)
	if a.serves(ca, hosts) {
		return nil
	}
	a.changed = true
	return a.serverCert(ca, key, hosts)
}

// adopt copies the user's files, after a look at them.
func (a *authority) adopt(cert, key, ca string) error {
	if _, err := tls.LoadX509KeyPair(cert, key); err != nil {
		return fmt.Errorf("read certificate %s and key %s: %w", cert, key, err)
	}
	for from, to := range map[string]string{cert: serverCert, key: serverKey, ca: caName} {
		if from == "" {
			continue
		}
		b, err := os.ReadFile(from)
		if err != nil {
			return fmt.Errorf("read certificate: %w", err)
		}
		if err := a.write(filepath.Join(tlsDir, to), b); err != nil {
			return err
		}
	}
	return nil
}

// trusted is what clients should trust, PEM; empty is what their system trusts.
func (a *authority) trusted() ([]byte, error) {
	if a.Settings.Cert != "" && a.Settings.CA == "" {
		return nil, nil
	}
	b, err := os.ReadFile(a.join(tlsDir, caName))
	if err != nil {
		return nil, fmt.Errorf("read CA: %w", err)
	}
	if !x509.NewCertPool().AppendCertsFromPEM(b) {
		return nil, fmt.Errorf("read CA %s: no certificate in it", a.join(tlsDir, caName))
	}
	return b, nil
}

// authorityCert reads the CA or makes it.
func (a *authority) authorityCert() (*x509.Certificate, crypto.Signer, error) {
	pair, err := a.pair(filepath.Join(tlsDir, caName), filepath.Join(keysDir, caKey))
	if err == nil {
		return pair.Leaf, pair.PrivateKey.(crypto.Signer), nil
	}
	if !errors.Is(err, os.ErrNotExist) {
		return nil, nil, err
	}
	template := &x509.Certificate{
		Subject: pkix.Name{CommonName: "headrace CA"}, NotAfter: time.Now().AddDate(caYears, 0, 0),
		IsCA: true, BasicConstraintsValid: true, MaxPathLenZero: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, fmt.Errorf("make CA: %w", err)
	}
	if err := a.certificate(template, template, key, key, filepath.Join(tlsDir, caName), filepath.Join(keysDir, caKey)); err != nil {
		return nil, nil, err
	}
	if pair, err = a.pair(filepath.Join(tlsDir, caName), filepath.Join(keysDir, caKey)); err != nil {
		return nil, nil, err
	}
	return pair.Leaf, key, nil
}

func (a *authority) pair(cert, key string) (*tls.Certificate, error) {
	pair, err := tls.LoadX509KeyPair(a.join(cert), a.join(key))
	if err != nil {
		return nil, fmt.Errorf("read certificate %s: %w", a.join(cert), err)
	}
	if pair.Leaf == nil {
		if pair.Leaf, err = x509.ParseCertificate(pair.Certificate[0]); err != nil {
			return nil, fmt.Errorf("read certificate %s: %w", a.join(cert), err)
		}
	}
	return &pair, nil
}

// serves reports whether the server's certificate is still good for all hosts.
func (a *authority) serves(ca *x509.Certificate, hosts []string) bool {
	pair, err := a.pair(filepath.Join(tlsDir, serverCert), filepath.Join(tlsDir, serverKey))
	if err != nil || pair.Leaf.CheckSignatureFrom(ca) != nil || time.Until(pair.Leaf.NotAfter) < renewBefore {
		return false
	}
	return !slices.ContainsFunc(hosts, func(h string) bool { return pair.Leaf.VerifyHostname(h) != nil })
}

// serverCert makes the certificate of the server; the nodes of a cluster show
// it to each other too.
func (a *authority) serverCert(ca *x509.Certificate, caKey crypto.Signer, hosts []string) error {
	template := &x509.Certificate{
		Subject: pkix.Name{CommonName: "headrace nats"}, NotAfter: time.Now().AddDate(serverYears, 0, 0),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	for _, h := range hosts {
		if ip := net.ParseIP(h); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, h)
		}
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return fmt.Errorf("make certificate: %w", err)
	}
	return a.certificate(template, ca, key, caKey, filepath.Join(tlsDir, serverCert), filepath.Join(tlsDir, serverKey))
}

// certificate signs and writes one, and its key.
func (a *authority) certificate(template, parent *x509.Certificate, key *ecdsa.PrivateKey, signer crypto.Signer, certFile, keyFile string) error {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return fmt.Errorf("make certificate: %w", err)
	}
	template.SerialNumber, template.NotBefore = serial, time.Now().Add(-time.Hour)
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), signer)
	if err != nil {
		return fmt.Errorf("make certificate: %w", err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return fmt.Errorf("make certificate: %w", err)
	}
	if err := a.write(keyFile, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret})); err != nil {
		return err
	}
	return a.write(certFile, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
}
