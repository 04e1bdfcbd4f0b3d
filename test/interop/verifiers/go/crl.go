package main

import (
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"time"
)

type entry struct {
	Serial    string    `json:"serial"`
	RevokedAt time.Time `json:"revokedAt"`
	Reason    int       `json:"reason"`
}

type listQuestion struct {
	Root       string    `json:"rootPem"`
	Crl        string    `json:"crlPem"`
	Number     string    `json:"number"`
	ThisUpdate time.Time `json:"thisUpdate"`
	NextUpdate time.Time `json:"nextUpdate"`
	Entries    []entry   `json:"entries"`
}

// judgeList requires a CRL to be signed by its root, and to have what the question says.
func judgeList(line []byte) error {
	var asked listQuestion
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
