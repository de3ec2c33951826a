package controlplane

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// certLife is longer than any sandbox lives.
const certLife = 365 * 24 * time.Hour

// authority signs everything of one cluster.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pem  []byte
}

// identity is a certificate and its key, in PEM.
type identity struct {
	cert, key []byte
}

func newAuthority() (*authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("certificate authority: %w", err)
	}
	tmpl, err := template(pkix.Name{CommonName: "ljsandbox-ca"})
	if err != nil {
		return nil, err
	}
	tmpl.IsCA = true
	tmpl.KeyUsage = x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature
	der, err := x509.CreateCertificate(rand.Reader, tmpl, tmpl, key.Public(), key)
	if err != nil {
		return nil, fmt.Errorf("certificate authority: %w", err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, fmt.Errorf("certificate authority: %w", err)
	}
	return &authority{cert: cert, key: key, pem: pemOf("CERTIFICATE", der)}, nil
}

// client makes the identity of a user in these groups.
func (a *authority) client(user string, groups ...string) (identity, error) {
	tmpl, err := template(pkix.Name{CommonName: user, Organization: groups})
	if err != nil {
		return identity{}, err
	}
	tmpl.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	return a.sign(tmpl)
}

// server makes a serving certificate for loopback and the given names.
func (a *authority) server(names []string, ips []net.IP) (identity, error) {
	tmpl, err := template(pkix.Name{CommonName: "ljsandbox"})
	if err != nil {
		return identity{}, err
	}
	tmpl.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	tmpl.DNSNames = append([]string{"localhost"}, names...)
	tmpl.IPAddresses = append([]net.IP{net.IPv4(127, 0, 0, 1)}, ips...)
	return a.sign(tmpl)
}

func (a *authority) sign(tmpl *x509.Certificate) (identity, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return identity{}, fmt.Errorf("certificate %s: %w", tmpl.Subject.CommonName, err)
	}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, a.cert, key.Public(), a.key)
	if err != nil {
		return identity{}, fmt.Errorf("certificate %s: %w", tmpl.Subject.CommonName, err)
	}
	keyPEM, err := keyToPEM(key)
	if err != nil {
		return identity{}, err
	}
	return identity{cert: pemOf("CERTIFICATE", der), key: keyPEM}, nil
}

func template(name pkix.Name) (*x509.Certificate, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return nil, fmt.Errorf("certificate serial: %w", err)
	}
	now := time.Now()
	return &x509.Certificate{
		SerialNumber:          serial,
		Subject:               name,
		NotBefore:             now.Add(-time.Minute),
		NotAfter:              now.Add(certLife),
		KeyUsage:              x509.KeyUsageDigitalSignature,
		BasicConstraintsValid: true,
	}, nil
}

func keyToPEM(key *ecdsa.PrivateKey) ([]byte, error) {
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return nil, fmt.Errorf("private key: %w", err)
	}
	return pemOf("EC PRIVATE KEY", der), nil
}

func pemOf(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}

// files are what kube-apiserver can take from files only.
type files struct {
	ca, serverCert, serverKey, saKey string
}

func writeFiles(dir string, ca *authority, server identity) (files, error) {
	saKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return files{}, fmt.Errorf("service account key: %w", err)
	}
	saPEM, err := keyToPEM(saKey)
	if err != nil {
		return files{}, err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return files{}, err
	}
	f := files{
		ca:         filepath.Join(dir, "ca.crt"),
		serverCert: filepath.Join(dir, "apiserver.crt"),
		serverKey:  filepath.Join(dir, "apiserver.key"),
		saKey:      filepath.Join(dir, "sa.key"),
	}
	for _, w := range []struct {
		path string
		data []byte
	}{{f.ca, ca.pem}, {f.serverCert, server.cert}, {f.serverKey, server.key}, {f.saKey, saPEM}} {
		if err := os.WriteFile(w.path, w.data, 0o600); err != nil {
			return files{}, err
		}
	}
	return f, nil
}

// restConfig is a client of this identity without client-side throttling: on
// one machine the server's own fairness is the better judge.
func restConfig(host string, ca *authority, id identity, agent string) *rest.Config {
	return &rest.Config{
		Host:            host,
		TLSClientConfig: rest.TLSClientConfig{CAData: ca.pem, CertData: id.cert, KeyData: id.key},
		QPS:             -1,
		UserAgent:       agent,
	}
}

// writeKubeconfig writes a self-contained kubeconfig with one context.
func writeKubeconfig(path, context, user, host string, ca *authority, id identity) error {
	c := clientcmdapi.NewConfig()
	c.Clusters["ljsandbox"] = &clientcmdapi.Cluster{Server: host, CertificateAuthorityData: ca.pem}
	c.AuthInfos[user] = &clientcmdapi.AuthInfo{ClientCertificateData: id.cert, ClientKeyData: id.key}
	c.Contexts[context] = &clientcmdapi.Context{Cluster: "ljsandbox", AuthInfo: user, Namespace: "default"}
	c.CurrentContext = context
	if err := clientcmd.WriteToFile(*c, path); err != nil {
		return fmt.Errorf("write kubeconfig %s: %w", path, err)
	}
	return nil
}
