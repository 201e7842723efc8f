package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// tokensFile holds the tokens of the users in the kubeconfigs.
const tokensFile = "tokens.csv"

// authority signs the certificates of one cluster; its files are in dir.
type authority struct {
	dir  string
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// newAuthority creates the CA (ca.crt, ca.key), the serving certificate of the API server (apiserver.crt, apiserver.key) and the key pair of service account
// tokens (sa.key, sa.pub).
func newAuthority(dir string) (*authority, error) {
	a := &authority{dir: dir}
	var err error
	if a.key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader); err != nil {
		return nil, fmt.Errorf("generate the key of the CA: %w", err)
	}
	a.cert = template("sluice-cluster")
	a.cert.IsCA, a.cert.BasicConstraintsValid = true, true
	a.cert.KeyUsage |= x509.KeyUsageCertSign
	der, err := x509.CreateCertificate(rand.Reader, a.cert, a.cert, a.key.Public(), a.key)
	if err != nil {
		return nil, fmt.Errorf("sign the CA: %w", err)
	}
	if a.cert, err = x509.ParseCertificate(der); err != nil {
		return nil, fmt.Errorf("read the CA back: %w", err)
	}
	if err := a.write("ca", der, a.key); err != nil {
		return nil, err
	}
	server := template("kube-apiserver")
	server.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	server.DNSNames = []string{"localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc"}
	server.IPAddresses = []net.IP{net.IPv4(127, 0, 0, 1), net.IPv4(10, 0, 0, 1)}
	if der, key, err := a.sign(server); err != nil {
		return nil, err
	} else if err := a.write("apiserver", der, key); err != nil {
		return nil, err
	}
	return a, a.writeServiceAccountKey()
}

// kubeconfig writes a kubeconfig for a user with the given name and group into the directory, and returns its path. The user has a token of the file
// tokensFile: the API server would check a client certificate again in each request.
func (a *authority) kubeconfig(file, server, user, group string) (string, error) {
	token := rand.Text()
	if err := a.addToken(token, user, group); err != nil {
		return "", err
	}
	const name = "sluice"
	config := clientcmdapi.NewConfig()
	config.Clusters[name] = &clientcmdapi.Cluster{Server: server, CertificateAuthorityData: encodeCert(a.cert.Raw)}
	config.AuthInfos[user] = &clientcmdapi.AuthInfo{Token: token}
	config.Contexts[name] = &clientcmdapi.Context{Cluster: name, AuthInfo: user}
	config.CurrentContext = name
	path := a.path(file)
	if err := clientcmd.WriteToFile(*config, path); err != nil {
		return "", fmt.Errorf("write %s: %w", path, err)
	}
	return path, nil
}

// addToken appends a line to tokensFile: token, user, uid, groups.
func (a *authority) addToken(token, user, group string) error {
	file, err := os.OpenFile(a.path(tokensFile), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("open the tokens: %w", err)
	}
	_, err = fmt.Fprintf(file, "%s,%s,%s,%s\n", token, user, user, group)
	if err := errors.Join(err, file.Close()); err != nil {
		return fmt.Errorf("write the token of %s: %w", user, err)
	}
	return nil
}

func (a *authority) sign(cert *x509.Certificate) ([]byte, *ecdsa.PrivateKey, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, fmt.Errorf("generate the key of %s: %w", cert.Subject.CommonName, err)
	}
	der, err := x509.CreateCertificate(rand.Reader, cert, a.cert, key.Public(), a.key)
	if err != nil {
		return nil, nil, fmt.Errorf("sign the certificate of %s: %w", cert.Subject.CommonName, err)
	}
	return der, key, nil
}

func (a *authority) path(name string) string { return filepath.Join(a.dir, name) }

func (a *authority) write(name string, der []byte, key *ecdsa.PrivateKey) error {
	keyPEM, err := encodeKey(key)
	if err != nil {
		return err
	}
	if err := os.WriteFile(a.path(name+".key"), keyPEM, 0o600); err != nil {
		return fmt.Errorf("write a key: %w", err)
	}
	if err := os.WriteFile(a.path(name+".crt"), encodeCert(der), 0o600); err != nil {
		return fmt.Errorf("write a certificate: %w", err)
	}
	return nil
}

func (a *authority) writeServiceAccountKey() error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return fmt.Errorf("generate the key of service accounts: %w", err)
	}
	keyPEM, err := encodeKey(key)
	if err != nil {
		return err
	}
	der, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		return fmt.Errorf("encode the public key of service accounts: %w", err)
	}
	if err := os.WriteFile(a.path("sa.key"), keyPEM, 0o600); err != nil {
		return fmt.Errorf("write the key of service accounts: %w", err)
	}
	public := pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})
	if err := os.WriteFile(a.path("sa.pub"), public, 0o600); err != nil {
		return fmt.Errorf("write the public key of service accounts: %w", err)
	}
	return nil
}

func template(name string) *x509.Certificate {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		panic(err) // crypto/rand does not fail
	}
	now := time.Now()
	return &x509.Certificate{
		SerialNumber: serial,
		Subject:      pkix.Name{CommonName: name},
		KeyUsage:     x509.KeyUsageDigitalSignature,
		NotBefore:    now.Add(-time.Hour),
		NotAfter:     now.AddDate(1, 0, 0),
	}
}

func encodeCert(der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

func encodeKey(key *ecdsa.PrivateKey) ([]byte, error) {
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return nil, fmt.Errorf("encode a key: %w", err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der}), nil
}
