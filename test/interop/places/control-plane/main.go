// A control plane of go-control-plane, which gives every proxy a listener that answers.
package main

import (
	"context"
	"flag"
	"fmt"
	"net"
	"os"
	"strconv"

	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/envoyproxy/go-control-plane/pkg/server/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
)

func main() {
	if err := serve(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func serve() error {
	listen := flag.String("listen", "", "where to answer")
	name := flag.String("name", "istiod.istio-system.svc", "the name in its certificate")
	rootFile := flag.String("root-file", "", "where to write the root of its certificate")
	address := flag.String("listener", "", "where Envoy is to listen")
	flag.Parse()

	certificate, err := createCertificate(*name, *rootFile)
	if err != nil {
		return err
	}
	host, portText, err := net.SplitHostPort(*address)
	if err != nil {
		return err
	}
	port, err := strconv.ParseUint(portText, 10, 16)
	if err != nil {
		return err
	}
	configuration, err := configurationOf(host, uint32(port))
	if err != nil {
		return err
	}
	tcp, err := net.Listen("tcp", *listen)
	if err != nil {
		return err
	}
	answering := grpc.NewServer(grpc.Creds(credentials.NewServerTLSFromCert(certificate)))
	plane := server.NewServer(context.Background(), configuration, nil)
	discovery.RegisterAggregatedDiscoveryServiceServer(answering, plane)
	fmt.Println("listening")
	return answering.Serve(tcp)
}
