// Go's crypto/x509 as a judge of leaves and CRLs: one question a line, as JSON, and one answer a line.
package main

import (
	"bufio"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"os"
)

type leafQuestion struct {
	Leaf          string `json:"leafPem"`
	Intermediates string `json:"intermediatesPem"`
	Root          string `json:"rootPem"`
	SpiffeID      string `json:"spiffeId"`
}

func main() {
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 1<<26)
	answers := json.NewEncoder(os.Stdout)
	for lines.Scan() {
		fault := ""
		if err := judge(lines.Bytes()); err != nil {
			fault = err.Error()
		}
		answers.Encode(map[string]string{"fault": fault})
	}
}

func judge(line []byte) error {
	var asked struct {
		Crl string `json:"crlPem"`
	}
	if err := json.Unmarshal(line, &asked); err != nil {
		return err
	}
	if asked.Crl != "" {
		return judgeList(line)
	}
	return judgeLeaf(line)
}

func judgeLeaf(line []byte) error {
	var asked leafQuestion
	if err := json.Unmarshal(line, &asked); err != nil {
		return err
	}
	block, _ := pem.Decode([]byte(asked.Leaf))
	if block == nil {
		return fmt.Errorf("the leaf is no PEM")
	}
	leaf, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return err
	}
	if len(leaf.UnhandledCriticalExtensions) > 0 {
		return fmt.Errorf("critical extensions %v", leaf.UnhandledCriticalExtensions)
	}
	if asked.SpiffeID != "" && (len(leaf.URIs) != 1 || leaf.URIs[0].String() != asked.SpiffeID) {
		return fmt.Errorf("names %v", leaf.URIs)
	}
	roots, intermediates := x509.NewCertPool(), x509.NewCertPool()
	if !roots.AppendCertsFromPEM([]byte(asked.Root)) {
		return fmt.Errorf("the root does not parse")
	}
	intermediates.AppendCertsFromPEM([]byte(asked.Intermediates))
	for _, usage := range []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth} {
		options := x509.VerifyOptions{Roots: roots, Intermediates: intermediates, KeyUsages: []x509.ExtKeyUsage{usage}}
		if _, err := leaf.Verify(options); err != nil {
			return err
		}
	}
	return nil
}
