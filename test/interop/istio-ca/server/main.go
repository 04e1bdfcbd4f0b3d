// The CA of Istio's control plane by itself: the code with which istiod answers CreateCertificate, its
// self-signed authority and its authenticators, over TLS as istiod sets it up. There is no Kubernetes,
// so tokens are judged by the authenticator for an istiod outside of a cluster.
package main

import (
	"bufio"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"flag"
	"fmt"
	"net"
	"os"
	"os/signal"
	"syscall"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"istio.io/api/security/v1beta1"
	"istio.io/istio/pkg/config/mesh"
	"istio.io/istio/pkg/config/mesh/meshwatcher"
	"istio.io/istio/pkg/log"
	"istio.io/istio/pkg/security"
	"istio.io/istio/security/pkg/pki/ca"
	"istio.io/istio/security/pkg/pki/util"
	caserver "istio.io/istio/security/pkg/server/ca"
	"istio.io/istio/security/pkg/server/ca/authenticate"
)

func main() {
	// Istio's loggers would write to standard output.
	options := log.DefaultOptions()
	options.OutputPaths = []string{"stderr"}
	err := log.Configure(options)
	if err == nil {
		err = run()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run() error {
	listen := flag.String("listen", "127.0.0.1:0", "where to answer")
	name := flag.String("name", "istiod.istio-system.svc", "the name in its own certificate")
	issuer := flag.String("issuer", "", "of tokens")
	jwks := flag.String("jwks", "", "URL of the issuer's keys")
	longest := flag.Duration("longest", time.Hour, "life of a certificate")
	rootFile := flag.String("root-file", "", "where to write the root")
	authorityFile := flag.String("authority-file", "", "where the authority outlives this process")
	bundles := flag.Bool("bundles", false, "judge plugged-in CAs, one a line of the standard input, as JSON")
	flag.Parse()

	if *bundles {
		return judgeBundles()
	}

	authority, err := openAuthority(*authorityFile, *longest)
	if err != nil {
		return err
	}
	root := authority.GetCAKeyCertBundle().GetRootCertPem()
	if err := os.WriteFile(*rootFile, root, 0o644); err != nil {
		return err
	}
	rule := &v1beta1.JWTRule{Issuer: *issuer, JwksUri: *jwks, Audiences: []string{"istio-ca"}}
	tokens, err := authenticate.NewJwtAuthenticator(rule, meshwatcher.NewTestWatcher(mesh.DefaultMeshConfig()))
	if err != nil {
		return err
	}
	// In istiod's order.
	authenticators := []security.Authenticator{&authenticate.ClientCertAuthenticator{}, tokens}
	service, err := caserver.New(authority, *longest, authenticators, nil)
	if err != nil {
		return err
	}
	shown, err := serverCredentials(authority, *name, root)
	if err != nil {
		return err
	}
	server := grpc.NewServer(grpc.Creds(shown))
	service.Register(server)
	listener, err := net.Listen("tcp", *listen)
	if err != nil {
		return err
	}
	line, _ := json.Marshal(map[string]int{"port": listener.Addr().(*net.TCPAddr).Port})
	fmt.Println(string(line))
	ending := make(chan os.Signal, 1)
	signal.Notify(ending, syscall.SIGTERM)
	go func() {
		<-ending
		server.Stop()
	}()
	return server.Serve(listener)
}

// judgeBundles answers each plugged-in CA with the fault that istiod finds in it, or with none.
func judgeBundles() error {
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 1<<20)
	answers := json.NewEncoder(os.Stdout)
	for lines.Scan() {
		var bundle struct{ Certificate, Key, Chain, Roots string }
		if err := json.Unmarshal(lines.Bytes(), &bundle); err != nil {
			return err
		}
		fault := ""
		_, err := util.NewVerifiedKeyCertBundleFromPem(
			[]byte(bundle.Certificate), []byte(bundle.Key), []byte(bundle.Chain), []byte(bundle.Roots), nil)
		if err != nil {
			fault = err.Error()
		}
		if err := answers.Encode(map[string]string{"fault": fault}); err != nil {
			return err
		}
	}
	return lines.Err()
}

// openAuthority makes a self-signed authority at the first start, and finds it again at the next ones.
func openAuthority(file string, longest time.Duration) (*ca.IstioCA, error) {
	options, err := storedAuthority(file, longest)
	if os.IsNotExist(err) {
		options, err = newAuthority(file, longest)
	}
	if err != nil {
		return nil, err
	}
	return ca.NewIstioCA(options)
}

func newAuthority(file string, longest time.Duration) (*ca.IstioCAOptions, error) {
	options, err := ca.NewSelfSignedDebugIstioCAOptions("", 24*time.Hour, longest, longest, "cluster.local", 2048)
	if err != nil {
		return nil, err
	}
	certificate, key, _, _ := options.KeyCertBundle.GetAllPem()
	if err := os.WriteFile(file, certificate, 0o600); err != nil {
		return nil, err
	}
	return options, os.WriteFile(file+".key", key, 0o600)
}

func storedAuthority(file string, longest time.Duration) (*ca.IstioCAOptions, error) {
	if _, err := os.Stat(file); err != nil {
		return nil, err
	}
	files := ca.SigningCAFileBundle{RootCertFile: file, SigningCertFile: file, SigningKeyFile: file + ".key"}
	return ca.NewPluggedCertIstioCAOptions(files, longest, longest, 2048)
}

// serverCredentials are istiod's: a certificate of its own authority, and client certificates as they come.
func serverCredentials(authority *ca.IstioCA, name string, root []byte) (credentials.TransportCredentials, error) {
	certificate, key, err := authority.GenKeyCert([]string{name}, time.Hour, false)
	if err != nil {
		return nil, err
	}
	pair, err := tls.X509KeyPair(certificate, key)
	if err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(root)
	return credentials.NewTLS(&tls.Config{
		Certificates: []tls.Certificate{pair},
		ClientAuth:   tls.VerifyClientCertIfGiven,
		ClientCAs:    roots,
		MinVersion:   tls.VersionTLS12,
	}), nil
}
