package main

import (
	"encoding/json"

	"istio.io/istio/pkg/security"
	"istio.io/istio/security/pkg/credentialfetcher/plugin"
	"istio.io/istio/security/pkg/nodeagent/caclient/providers/citadel"
	"istio.io/istio/security/pkg/pki/util"
)

// call asks for a certificate as pilot-agent does; files that are not named are not there.
func call(input json.RawMessage) (any, error) {
	var in struct {
		Address, ServerName, RootsFile, TokenFile, ClusterID string
		CertificateFile, KeyFile                             string
		CSR, CertSigner                                      string
		ValiditySeconds                                      int64
		Headers                                              map[string]string
	}
	if err := json.Unmarshal(input, &in); err != nil {
		return nil, err
	}
	options := &security.Options{
		CAEndpoint:    in.Address,
		CAEndpointSAN: in.ServerName,
		ClusterID:     in.ClusterID,
		CertSigner:    in.CertSigner,
		CAHeaders:     in.Headers,
		CredFetcher:   plugin.CreateTokenPlugin(in.TokenFile),
	}
	client, err := citadel.NewCitadelClient(options, &citadel.TLSOptions{
		RootCert: in.RootsFile,
		Cert:     in.CertificateFile,
		Key:      in.KeyFile,
	})
	if err != nil {
		return nil, err
	}
	defer client.Close()
	chain, err := client.CSRSign([]byte(in.CSR), in.ValiditySeconds)
	if err != nil {
		return nil, err
	}
	return map[string][]string{"certChain": chain}, nil
}

// request makes a key and a CSR as pilot-agent does by default.
func request(input json.RawMessage) (any, error) {
	var in struct{ SpiffeID string }
	if err := json.Unmarshal(input, &in); err != nil {
		return nil, err
	}
	csr, key, err := util.GenCSR(util.CertOptions{Host: in.SpiffeID, RSAKeySize: 2048, PKCS8Key: true})
	if err != nil {
		return nil, err
	}
	return map[string]string{"csr": string(csr), "keyPem": string(key)}, nil
}
