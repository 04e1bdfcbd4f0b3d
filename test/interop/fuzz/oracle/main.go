// Reads certificates, CSRs and questions for a verdict over stdin, and answers each with a line of JSON.
//
// A question is a kind of one octet, a length of four, and as many octets.
package main

import (
	"bufio"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
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
	// Strict is why ParseCertificateRequest does not accept a CSR whose key and signature are good.
	Strict string `json:"strict,omitempty"`
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
	}
	for _, uri := range parsed.URIs {
		facts.Uris = append(facts.Uris, uri.String())
	}
	return facts
}

var algorithms = map[string]x509.SignatureAlgorithm{
	"1.2.840.10045.4.3.2":   x509.ECDSAWithSHA256,
	"1.2.840.10045.4.3.3":   x509.ECDSAWithSHA384,
	"1.2.840.10045.4.3.4":   x509.ECDSAWithSHA512,
	"1.2.840.113549.1.1.11": x509.SHA256WithRSA,
	"1.2.840.113549.1.1.12": x509.SHA384WithRSA,
	"1.2.840.113549.1.1.13": x509.SHA512WithRSA,
	"1.3.101.112":           x509.PureEd25519,
}

// request reads the key of a CSR and checks its signature. ParseCertificateRequest also reads the subject and
// the attributes, of which Rampart takes nothing: what it says is Strict.
func request(der []byte) Facts {
	facts, err := keyOf(der)
	if err != nil {
		return Facts{Error: err.Error()}
	}
	parsed, err := x509.ParseCertificateRequest(der)
	if err != nil {
		facts.Strict = err.Error()
	} else if parsed.CheckSignature() != nil {
		facts.Strict = "the signature does not verify"
	} else if hex.EncodeToString(parsed.RawSubjectPublicKeyInfo) != facts.Spki {
		log.Fatal("two readings of one CSR")
	}
	return facts
}

func keyOf(der []byte) (Facts, error) {
	var outer struct {
		Info      asn1.RawValue
		Algorithm pkix.AlgorithmIdentifier
		Signature asn1.BitString
	}
	var info struct {
		Version int
		Subject asn1.RawValue
		Key     asn1.RawValue
		Rest    asn1.RawValue `asn1:"optional,tag:0"`
	}
	if rest, err := asn1.Unmarshal(der, &outer); err != nil {
		return Facts{}, err
	} else if len(rest) > 0 {
		return Facts{}, errors.New("octets after the CSR")
	}
	if _, err := asn1.Unmarshal(outer.Info.FullBytes, &info); err != nil {
		return Facts{}, err
	}
	key, err := x509.ParsePKIXPublicKey(info.Key.FullBytes)
	if err != nil {
		return Facts{}, err
	}
	algorithm, isKnown := algorithms[outer.Algorithm.Algorithm.String()]
	if !isKnown {
		return Facts{}, errors.New("an algorithm that is not known")
	}
	holder := x509.Certificate{PublicKey: key}
	if err := holder.CheckSignature(algorithm, outer.Info.FullBytes, outer.Signature.RightAlign()); err != nil {
		return Facts{}, err
	}
	return Facts{Spki: hex.EncodeToString(info.Key.FullBytes)}, nil
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
