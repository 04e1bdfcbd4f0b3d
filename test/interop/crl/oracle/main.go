// Go's crypto/x509 as a judge of CRLs: one question a line, as JSON, and one answer a line.
package main

import (
	"bufio"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"os"
	"time"
)

type entry struct {
	Serial    string    `json:"serial"`
	RevokedAt time.Time `json:"revokedAt"`
	Reason    int       `json:"reason"`
}

type question struct {
	Root       string    `json:"rootPem"`
	Crl        string    `json:"crlPem"`
	Number     string    `json:"number"`
	ThisUpdate time.Time `json:"thisUpdate"`
	NextUpdate time.Time `json:"nextUpdate"`
	Entries    []entry   `json:"entries"`
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
	var asked question
	if err := json.Unmarshal(line, &asked); err != nil {
		return err
	}
	block, _ := pem.Decode([]byte(asked.Root))
	root, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return err
	}
	block, rest := pem.Decode([]byte(asked.Crl))
	if block == nil || block.Type != "X509 CRL" || len(rest) > 0 {
		return fmt.Errorf("not one PEM block of a CRL")
	}
	list, err := x509.ParseRevocationList(block.Bytes)
	if err != nil {
		return err
	}
	if err := list.CheckSignatureFrom(root); err != nil {
		return err
	}
	if list.Number == nil || hex.EncodeToString(list.Number.Bytes()) != asked.Number {
		return fmt.Errorf("the number %x, not %s", list.Number, asked.Number)
	}
	if !list.ThisUpdate.Equal(asked.ThisUpdate) || !list.NextUpdate.Equal(asked.NextUpdate) {
		return fmt.Errorf("from %s to %s", list.ThisUpdate, list.NextUpdate)
	}
	if string(list.AuthorityKeyId) != string(root.SubjectKeyId) {
		return fmt.Errorf("the authority key identifier %x", list.AuthorityKeyId)
	}
	if len(list.RevokedCertificateEntries) != len(asked.Entries) {
		return fmt.Errorf("%d entries, not %d", len(list.RevokedCertificateEntries), len(asked.Entries))
	}
	for i, found := range list.RevokedCertificateEntries {
		want := asked.Entries[i]
		serial := hex.EncodeToString(found.SerialNumber.Bytes())
		if serial != want.Serial || !found.RevocationTime.Equal(want.RevokedAt) || found.ReasonCode != want.Reason {
			return fmt.Errorf("entry %d: %s at %s for %d", i, serial, found.RevocationTime, found.ReasonCode)
		}
	}
	return nil
}
