package webhook

import (
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
	"time"
)

const (
	authorityLife   = 365 * 24 * time.Hour
	certificateLife = 30 * 24 * time.Hour
	// skew is the largest tolerated difference between clocks.
	skew = time.Hour
)

// renewalTime is the time at which two thirds of a certificate's life have passed.
func renewalTime(c *x509.Certificate) time.Time {
	return c.NotBefore.Add(c.NotAfter.Sub(c.NotBefore) * 2 / 3)
}

// signingAuthority signs certificates.
type signingAuthority struct {
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
}

func (a *signingAuthority) serialNumber() string { return a.certificate.SerialNumber.String() }

func newAuthority(now time.Time) (*signingAuthority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("make key of authority: %w", err)
	}
	template, err := validFrom(now, authorityLife)
	if err != nil {
		return nil, err
	}
	template.Subject = pkix.Name{CommonName: "sluice-webhook authority " + template.SerialNumber.String()}
	template.IsCA, template.BasicConstraintsValid, template.KeyUsage = true, true, x509.KeyUsageCertSign
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, fmt.Errorf("make authority: %w", err)
	}
	certificate, err := x509.ParseCertificate(der)
	return &signingAuthority{certificate: certificate, key: key}, err
}

func validFrom(now time.Time, life time.Duration) (*x509.Certificate, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return nil, fmt.Errorf("make serial number: %w", err)
	}
	return &x509.Certificate{SerialNumber: serial, NotBefore: now.Add(-skew), NotAfter: now.Add(life)}, nil
}

// signCertificate makes a server certificate for host names and IP addresses.
func (a *signingAuthority) signCertificate(now time.Time, names []string) (*tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("make key of certificate: %w", err)
	}
	template, err := validFrom(now, certificateLife)
	if err != nil {
		return nil, err
	}
	template.Subject = pkix.Name{CommonName: names[0]}
	template.KeyUsage, template.ExtKeyUsage = x509.KeyUsageDigitalSignature, []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	for _, name := range names {
		if ip := net.ParseIP(name); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, name)
		}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.certificate, key.Public(), a.key)
	if err != nil {
		return nil, fmt.Errorf("sign certificate: %w", err)
	}
	leaf, err := x509.ParseCertificate(der)
	return &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}, err
}

func (a *signingAuthority) encodePEM() (certificate, key []byte, err error) {
	der, err := x509.MarshalPKCS8PrivateKey(a.key)
	if err != nil {
		return nil, nil, fmt.Errorf("encode key of authority: %w", err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.certificate.Raw}),
		pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), nil
}

func readAuthority(certificate, key []byte) (*signingAuthority, error) {
	pair, err := tls.X509KeyPair(certificate, key)
	if err != nil {
		return nil, fmt.Errorf("read authority: %w", err)
	}
	signer, is := pair.PrivateKey.(*ecdsa.PrivateKey)
	if !is || pair.Leaf == nil || !pair.Leaf.IsCA {
		return nil, errors.New("read authority: this program did not create it")
	}
	return &signingAuthority{certificate: pair.Leaf, key: signer}, nil
}

// unexpiredCertificates returns the certificates of a bundle that are still valid.
func unexpiredCertificates(bundle []byte, now time.Time) (kept []byte) {
	for block, rest := pem.Decode(bundle); block != nil; block, rest = pem.Decode(rest) {
		if c, err := x509.ParseCertificate(block.Bytes); err == nil && now.Before(c.NotAfter) {
			kept = append(kept, pem.EncodeToMemory(block)...)
		}
	}
	return kept
}
