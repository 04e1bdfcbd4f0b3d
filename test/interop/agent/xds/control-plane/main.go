// A control plane of go-control-plane, for what istiod cannot be made to do: a push of many MiB, fields and types
// that nobody knows, and an account of what it was asked. It prints an event in a line of JSON for each request,
// each response and each stream. POST /push of its second port says what it does next.
package main

import (
	"context"
	"flag"
	"fmt"
	"net"
	"net/http"
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
	commands := flag.String("commands", "", "where to take commands")
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
	configuration := newConfiguration(host, uint32(port))
	if err := configuration.push("1", 0, false); err != nil {
		return err
	}
	tcp, err := net.Listen("tcp", *listen)
	if err != nil {
		return err
	}
	answering := grpc.NewServer(
		grpc.Creds(credentials.NewServerTLSFromCert(certificate)),
		grpc.ForceServerCodecV2(reportingCodec()),
	)
	plane := server.NewServer(context.Background(), configuration.cache, callbacks())
	discovery.RegisterAggregatedDiscoveryServiceServer(answering, plane)

	http.HandleFunc("POST /push", func(w http.ResponseWriter, r *http.Request) {
		query := r.URL.Query()
		mebibytes, _ := strconv.Atoi(query.Get("mebibytes"))
		if err := configuration.push(query.Get("version"), mebibytes, query.Has("unknown")); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
		}
	})
	control, err := net.Listen("tcp", *commands)
	if err != nil {
		return err
	}
	go func() { _ = http.Serve(control, nil) }()
	emit(event{Event: "listening"})
	return answering.Serve(tcp)
}
