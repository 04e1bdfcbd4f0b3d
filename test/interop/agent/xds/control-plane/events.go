package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"os"
	"strings"
	"sync"

	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/envoyproxy/go-control-plane/pkg/server/v3"
	status "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/metadata"
)

type event struct {
	Event   string `json:"event"`
	Stream  int64  `json:"stream,omitempty"`
	Type    string `json:"type,omitempty"`
	Nonce   string `json:"nonce,omitempty"`
	HasNode bool   `json:"hasNode,omitempty"`
	// Of a request that rejects a response, or that reports an unhealthy workload.
	Code    int32  `json:"code,omitempty"`
	Message string `json:"message,omitempty"`
	// Whether the stream came with a bearer token.
	HasToken bool   `json:"hasToken,omitempty"`
	Octets   int    `json:"octets,omitempty"`
	Sha256   string `json:"sha256,omitempty"`
}

var (
	output  = json.NewEncoder(os.Stdout)
	writing sync.Mutex
)

func emit(each event) {
	writing.Lock()
	defer writing.Unlock()
	_ = output.Encode(each)
}

func callbacks() server.Callbacks {
	opened := func(ctx context.Context, id int64, _ string) error {
		fields, _ := metadata.FromIncomingContext(ctx)
		token := strings.Join(fields.Get("authorization"), "")
		emit(event{Event: "opened", Stream: id, HasToken: strings.HasPrefix(token, "Bearer ")})
		return nil
	}
	closed := func(id int64, _ *core.Node) { emit(event{Event: "closed", Stream: id}) }
	return server.CallbackFuncs{
		StreamOpenFunc:        opened,
		DeltaStreamOpenFunc:   opened,
		StreamClosedFunc:      closed,
		DeltaStreamClosedFunc: closed,
		StreamRequestFunc: func(id int64, request *discovery.DiscoveryRequest) error {
			requested(id, request, request.GetErrorDetail())
			return nil
		},
		StreamDeltaRequestFunc: func(id int64, request *discovery.DeltaDiscoveryRequest) error {
			requested(id, request, request.GetErrorDetail())
			return nil
		},
	}
}

func requested(id int64, request interface {
	GetTypeUrl() string
	GetResponseNonce() string
	GetNode() *core.Node
}, fault *status.Status) {
	emit(event{
		Event:   "request",
		Stream:  id,
		Type:    request.GetTypeUrl(),
		Nonce:   request.GetResponseNonce(),
		HasNode: request.GetNode().GetId() != "",
		Code:    fault.GetCode(),
		Message: fault.GetMessage(),
	})
}

// reporting is gRPC's own codec for protobuf. It tells the digest of each response.
type reporting struct{ encoding.CodecV2 }

func reportingCodec() encoding.CodecV2 { return reporting{encoding.GetCodecV2("proto")} }

func (c reporting) Marshal(message any) (mem.BufferSlice, error) {
	buffers, err := c.CodecV2.Marshal(message)
	if response, ok := message.(interface {
		GetTypeUrl() string
		GetNonce() string
	}); ok && err == nil {
		each := digestOf(buffers.Materialize())
		each.Event, each.Type, each.Nonce = "response", response.GetTypeUrl(), response.GetNonce()
		emit(each)
	}
	return buffers, err
}

func digestOf(octets []byte) event {
	sum := sha256.Sum256(octets)
	return event{Octets: len(octets), Sha256: hex.EncodeToString(sum[:])}
}
