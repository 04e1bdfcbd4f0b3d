// Reads certificates, CSRs and questions for a verdict over stdin, and answers each with a line of JSON.
//
// A question is a kind of one octet, a length of four, and as many octets.
package main

import (
	"bufio"
	"crypto/x509"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"log"
	"os"
	"strings"
	"time"
)

// Facts are what crypto/x509 finds. Error is why it finds nothing.
type Facts struct {
	Error     string   `json:"error,omitempty"`
	Spki      string   `json:"spki,omitempty"`
	Serial    string   `json:"serial,omitempty"`
	NotBefore int64    `json:"notBefore,omitempty"`
	NotAfter  int64    `json:"notAfter,omitempty"`
	Uris      []string `json:"uris,omitempty"`
	// OtherNames counts the names that are no URIs.
	OtherNames int `json:"otherNames,omitempty"`
	// IsSigned says whether a CSR or a root carries the signature of its own key.
	IsSigned bool `json:"isSigned,omitempty"`
}

func certificate(der []byte) Facts {
	parsed, err := x509.ParseCertificate(der)
	if err != nil {
		return Facts{Error: err.Error()}
	}
	facts := Facts{
		Spki:       hex.EncodeToString(parsed.RawSubjectPublicKeyInfo),
		Serial:     parsed.SerialNumber.Text(16),
		NotBefore:  parsed.NotBefore.Unix(),
		NotAfter:   parsed.NotAfter.Unix(),
		OtherNames: len(parsed.DNSNames) + len(parsed.EmailAddresses) + len(parsed.IPAddresses),
		IsSigned:   parsed.CheckSignature(parsed.SignatureAlgorithm, parsed.RawTBSCertificate, parsed.Signature) == nil,
	}
	for _, uri := range parsed.URIs {
		facts.Uris = append(facts.Uris, uri.String())
	}
	return facts
}

func request(der []byte) Facts {
	parsed, err := x509.ParseCertificateRequest(der)
	if err != nil {
		return Facts{Error: err.Error()}
	}
	facts := Facts{
		Spki:       hex.EncodeToString(parsed.RawSubjectPublicKeyInfo),
		OtherNames: len(parsed.DNSNames) + len(parsed.EmailAddresses) + len(parsed.IPAddresses),
		IsSigned:   parsed.CheckSignature() == nil,
	}
	for _, uri := range parsed.URIs {
		facts.Uris = append(facts.Uris, uri.String())
	}
	return facts
}

// verdict verifies a client's leaf: the seconds of the instant in eight octets, the length of the root in
// four, the root, the leaf.
func verdict(question []byte) Facts {
	if len(question) < 12 {
		log.Fatal("a question without an instant and a root")
	}
	at, length := binary.BigEndian.Uint64(question), binary.BigEndian.Uint32(question[8:])
	root, err := x509.ParseCertificate(question[12 : 12+length])
	if err != nil {
		log.Fatal(err)
	}
	leaf, err := x509.ParseCertificate(question[12+length:])
	if err != nil {
		return Facts{Error: err.Error()}
	}
	roots := x509.NewCertPool()
	roots.AddCert(root)
	_, err = leaf.Verify(x509.VerifyOptions{
		Roots:       roots,
		CurrentTime: time.Unix(int64(at), 0),
		KeyUsages:   []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	})
	if err != nil {
		// A certificate in the text of an error would make every error another.
		reason, _, _ := strings.Cut(err.Error(), "(")
		return Facts{Error: reason}
	}
	return certificate(leaf.Raw)
}

func main() {
	kinds := map[byte]func([]byte) Facts{'c': certificate, 'r': request, 'v': verdict}
	in, out := bufio.NewReader(os.Stdin), bufio.NewWriter(os.Stdout)
	answers := json.NewEncoder(out)
	head := make([]byte, 5)
	for {
		// Whoever asked for several answers gets them together, before the program waits again.
		if in.Buffered() == 0 {
			out.Flush()
		}
		if _, err := io.ReadFull(in, head); errors.Is(err, io.EOF) {
			return
		} else if err != nil {
			log.Fatal(err)
		}
		question := make([]byte, binary.BigEndian.Uint32(head[1:]))
		if _, err := io.ReadFull(in, question); err != nil {
			log.Fatal(err)
		}
		if err := answers.Encode(kinds[head[0]](question)); err != nil {
			log.Fatal(err)
		}
	}
}
