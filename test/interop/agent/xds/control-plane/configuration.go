package main

import (
	"context"
	"fmt"
	"strings"

	cluster "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listener "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	route "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	router "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/router/v3"
	hcm "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	"github.com/envoyproxy/go-control-plane/pkg/cache/types"
	"github.com/envoyproxy/go-control-plane/pkg/cache/v3"
	"github.com/envoyproxy/go-control-plane/pkg/resource/v3"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// unheardType is a type that has no schema anywhere.
const unheardType = "type.googleapis.com/envoy.config.unheard.v9.Thing"

const healthType = "type.googleapis.com/istio.v1.HealthInformation"

// oneNode gives every proxy the same configuration.
type oneNode struct{}

func (oneNode) ID(*core.Node) string { return "any" }

// silent never answers, as istiod never answers a report of health.
type silent struct{ cache.Cache }

func (silent) CreateWatch(*cache.Request, cache.Subscription, chan cache.Response) (func(), error) {
	return func() {}, nil
}

func (silent) CreateDeltaWatch(*cache.DeltaRequest, cache.Subscription, chan cache.DeltaResponse) (func(), error) {
	return func() {}, nil
}

type configuration struct {
	snapshots cache.SnapshotCache
	cache     cache.Cache
	host      string
	port      uint32
}

func newConfiguration(host string, port uint32) *configuration {
	snapshots := cache.NewSnapshotCache(false, oneNode{}, nil)
	thing := wrapperspb.String("what only its sender understands")
	unheard := map[string]types.Resource{"thing": thing}
	known := func(typeURL string) string {
		if typeURL == unheardType || typeURL == healthType {
			return typeURL
		}
		return ""
	}
	mux := &cache.MuxCache{
		Classify:      func(r *cache.Request) string { return known(r.GetTypeUrl()) },
		ClassifyDelta: func(r *cache.DeltaRequest) string { return known(r.GetTypeUrl()) },
		Caches: map[string]cache.Cache{
			"":          snapshots,
			healthType:  silent{},
			unheardType: cache.NewLinearCache(unheardType, cache.WithInitialResources(unheard)),
		},
	}
	return &configuration{snapshots, mux, host, port}
}

// push gives every proxy a listener that answers with the version, and clusters of a mebibyte each.
func (c *configuration) push(version string, mebibytes int, hasUnknown bool) error {
	clusters := []types.Resource{plainCluster("small")}
	for i := range mebibytes {
		clusters = append(clusters, largeCluster(fmt.Sprintf("large-%d", i), version))
	}
	if hasUnknown {
		clusters = append(clusters, unknownFields(plainCluster("unknown")))
	}
	listening, err := c.listener()
	if err != nil {
		return err
	}
	snapshot, err := cache.NewSnapshot(version, map[resource.Type][]types.Resource{
		resource.ClusterType:  clusters,
		resource.ListenerType: {listening},
		resource.RouteType:    {routes(version)},
	})
	if err != nil {
		return err
	}
	return c.snapshots.SetSnapshot(context.Background(), "any", snapshot)
}

func plainCluster(name string) *cluster.Cluster {
	return &cluster.Cluster{
		Name:                 name,
		ClusterDiscoveryType: &cluster.Cluster_Type{Type: cluster.Cluster_STATIC},
	}
}

func largeCluster(name, version string) *cluster.Cluster {
	text := version + strings.Repeat(".", 1<<20)
	filler := &structpb.Struct{Fields: map[string]*structpb.Value{"text": structpb.NewStringValue(text)}}
	large := plainCluster(name)
	large.Metadata = &core.Metadata{FilterMetadata: map[string]*structpb.Struct{"filler": filler}}
	return large
}

// unknownFields adds a field of a later version of Envoy.
func unknownFields(to *cluster.Cluster) *cluster.Cluster {
	field := protowire.AppendTag(nil, 50_000, protowire.BytesType)
	to.ProtoReflect().SetUnknown(protowire.AppendBytes(field, []byte("of a later version")))
	return to
}

func (c *configuration) listener() (*listener.Listener, error) {
	routing, err := anypb.New(&router.Router{})
	if err != nil {
		return nil, err
	}
	ads := &core.ConfigSource{
		ResourceApiVersion:    core.ApiVersion_V3,
		ConfigSourceSpecifier: &core.ConfigSource_Ads{Ads: &core.AggregatedConfigSource{}},
	}
	manager, err := anypb.New(&hcm.HttpConnectionManager{
		StatPrefix:     "web",
		RouteSpecifier: &hcm.HttpConnectionManager_Rds{Rds: &hcm.Rds{ConfigSource: ads, RouteConfigName: "web"}},
		HttpFilters: []*hcm.HttpFilter{{
			Name:       "envoy.filters.http.router",
			ConfigType: &hcm.HttpFilter_TypedConfig{TypedConfig: routing},
		}},
	})
	if err != nil {
		return nil, err
	}
	port := &core.SocketAddress_PortValue{PortValue: c.port}
	return &listener.Listener{
		Name: "web",
		Address: &core.Address{Address: &core.Address_SocketAddress{
			SocketAddress: &core.SocketAddress{Address: c.host, PortSpecifier: port},
		}},
		FilterChains: []*listener.FilterChain{{Filters: []*listener.Filter{{
			Name:       "envoy.filters.network.http_connection_manager",
			ConfigType: &listener.Filter_TypedConfig{TypedConfig: manager},
		}}}},
	}, nil
}

func routes(version string) *route.RouteConfiguration {
	body := &core.DataSource{Specifier: &core.DataSource_InlineString{InlineString: version}}
	return &route.RouteConfiguration{
		Name: "web",
		VirtualHosts: []*route.VirtualHost{{
			Name:    "web",
			Domains: []string{"*"},
			Routes: []*route.Route{{
				Match:  &route.RouteMatch{PathSpecifier: &route.RouteMatch_Prefix{Prefix: "/"}},
				Action: &route.Route_DirectResponse{DirectResponse: &route.DirectResponseAction{Status: 200, Body: body}},
			}},
		}},
	}
}
