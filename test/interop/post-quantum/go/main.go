// Verifies as Go's crypto/x509 does: `leaf ROOTS LEAF`, or `crl ROOTS CRL`, each a file of PEM blocks.
// `shake ROOTS ADDRESS` prints the group of a handshake.
package main

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
)

func main() {
	if err := judge(os.Args[1], os.Args[2], os.Args[3]); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
}

func judge(kind, rootsFile, file string) error {
	roots, err := read(rootsFile)
	if err != nil {
		return err
	}
	pool := x509.NewCertPool()
	var certificates []*x509.Certificate
	for _, der := range roots {
		root, err := x509.ParseCertificate(der)
		if err != nil {
			return err
		}
		pool.AddCert(root)
		certificates = append(certificates, root)
	}
	if kind == "shake" {
		connection, err := tls.Dial("tcp", file, &tls.Config{RootCAs: pool, ServerName: "istiod.istio-system.svc"})
		if err != nil {
			return err
		}
		fmt.Println(connection.ConnectionState().CurveID)
		return connection.Close()
	}
	blocks, err := read(file)
	if err != nil {
		return err
	}
	if kind == "leaf" {
		leaf, err := x509.ParseCertificate(blocks[0])
		if err != nil {
			return err
		}
		_, err = leaf.Verify(x509.VerifyOptions{Roots: pool})
		return err
	}
	list, err := x509.ParseRevocationList(blocks[0])
	if err != nil {
		return err
	}
	return list.CheckSignatureFrom(certificates[0])
}

func read(file string) (blocks [][]byte, err error) {
	text, err := os.ReadFile(file)
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		blocks = append(blocks, block.Bytes)
	}
	if err == nil && len(blocks) == 0 {
		err = errors.New("no PEM block")
	}
	return blocks, err
}
