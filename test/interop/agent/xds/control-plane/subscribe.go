package main

import (
	"context"
	"flag"
	"os"
	"strings"

	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/mem"
)

// unread is gRPC's own codec for protobuf, except that it leaves what comes in as octets.
type unread struct{ encoding.CodecV2 }

func (c unread) Unmarshal(data mem.BufferSlice, into any) error {
	*into.(*[]byte) = data.Materialize()
	return nil
}

const service = "/envoy.service.discovery.v3.AggregatedDiscoveryService/"

// subscribe asks for each of the types, prints the digest of each answer, and ends.
func subscribe() error {
	flags := flag.NewFlagSet("subscribe", flag.ExitOnError)
	socket := flags.String("socket", "", "a Unix socket")
	types := flags.String("types", "", "type URLs, with commas between them")
	isIncremental := flags.Bool("incremental", false, "the protocol")
	if err := flags.Parse(os.Args[2:]); err != nil {
		return err
	}
	connection, err := grpc.NewClient(
		"unix:"+*socket,
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(
			grpc.ForceCodecV2(unread{encoding.GetCodecV2("proto")}),
			grpc.MaxCallRecvMsgSize(1<<30),
		),
	)
	if err != nil {
		return err
	}
	defer connection.Close()
	method := service + "StreamAggregatedResources"
	if *isIncremental {
		method = service + "DeltaAggregatedResources"
	}
	both := &grpc.StreamDesc{ClientStreams: true, ServerStreams: true}
	stream, err := connection.NewStream(context.Background(), both, method)
	if err != nil {
		return err
	}
	node := &core.Node{Id: "sidecar~127.0.0.9~web.foo~foo.svc.cluster.local"}
	for _, typeURL := range strings.Split(*types, ",") {
		var request any = &discovery.DiscoveryRequest{Node: node, TypeUrl: typeURL}
		if *isIncremental {
			request = &discovery.DeltaDiscoveryRequest{Node: node, TypeUrl: typeURL}
		}
		if err := stream.SendMsg(request); err != nil {
			return err
		}
		var octets []byte
		if err := stream.RecvMsg(&octets); err != nil {
			return err
		}
		each := digestOf(octets)
		each.Event, each.Type = "received", typeURL
		emit(each)
	}
	return nil
}
