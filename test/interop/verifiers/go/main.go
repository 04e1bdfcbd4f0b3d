// Verifies a leaf as Go's TLS does: its arguments are the files of the roots and of the leaf, and its SPIFFE ID.
package main

import (
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"os"
)

func main() {
	if err := verify(os.Args[1], os.Args[2], os.Args[3]); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
}

func verify(rootsFile, leafFile, spiffeID string) error {
	rootsPem, err := os.ReadFile(rootsFile)
	if err != nil {
		return err
	}
	leafPem, err := os.ReadFile(leafFile)
	if err != nil {
		return err
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(rootsPem)
	block, rest := pem.Decode(leafPem)
	intermediates := x509.NewCertPool()
	intermediates.AppendCertsFromPEM(rest)
	leaf, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return err
	}
	if len(leaf.UnhandledCriticalExtensions) > 0 || len(leaf.URIs) != 1 || leaf.URIs[0].String() != spiffeID {
		return fmt.Errorf("names %v, critical extensions %v", leaf.URIs, leaf.UnhandledCriticalExtensions)
	}
	for _, usage := range []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth} {
		if _, err := leaf.Verify(x509.VerifyOptions{Roots: roots, Intermediates: intermediates, KeyUsages: []x509.ExtKeyUsage{usage}}); err != nil {
			return err
		}
	}
	return nil
}
