package main

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"

	"istio.io/istio/security/pkg/pki/util"
)

// verify is Go's opinion of a leaf, for either end of a connection, and of the key that goes with it.
func verify(input json.RawMessage) (any, error) {
	var in struct{ Leaf, Key, Roots, SpiffeID string }
	if err := json.Unmarshal(input, &in); err != nil {
		return nil, err
	}
	pair, err := tls.X509KeyPair([]byte(in.Leaf), []byte(in.Key))
	if err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM([]byte(in.Roots)) {
		return nil, errors.New("no roots")
	}
	for _, usage := range []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth} {
		options := x509.VerifyOptions{Roots: roots, KeyUsages: []x509.ExtKeyUsage{usage}}
		if _, err := pair.Leaf.Verify(options); err != nil {
			return nil, err
		}
	}
	names := len(pair.Leaf.URIs) + len(pair.Leaf.DNSNames) + len(pair.Leaf.IPAddresses) + len(pair.Leaf.EmailAddresses)
	if names != 1 || len(pair.Leaf.URIs) != 1 || pair.Leaf.URIs[0].String() != in.SpiffeID {
		return nil, fmt.Errorf("names %v instead of %s", pair.Leaf.URIs, in.SpiffeID)
	}
	return map[string]string{}, nil
}

// bundles answers each plugged-in CA with the fault that istiod finds in it, or with none.
func bundles(input json.RawMessage) (any, error) {
	var cas []struct{ Certificate, Key, Chain, Roots string }
	if err := json.Unmarshal(input, &cas); err != nil {
		return nil, err
	}
	faults := make([]string, len(cas))
	for i, ca := range cas {
		_, err := util.NewVerifiedKeyCertBundleFromPem([]byte(ca.Certificate), []byte(ca.Key), []byte(ca.Chain), []byte(ca.Roots), nil)
		if err != nil {
			faults[i] = err.Error()
		}
	}
	return faults, nil
}
