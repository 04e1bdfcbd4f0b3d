package main

import (
	"context"

	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listener "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	route "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	router "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/router/v3"
	hcm "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	"github.com/envoyproxy/go-control-plane/pkg/cache/types"
	"github.com/envoyproxy/go-control-plane/pkg/cache/v3"
	"github.com/envoyproxy/go-control-plane/pkg/resource/v3"
	"google.golang.org/protobuf/types/known/anypb"
)

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

// configurationOf gives every proxy a listener, and its routes.
func configurationOf(host string, port uint32) (cache.Cache, error) {
	listening, err := listenerAt(host, port)
	if err != nil {
		return nil, err
	}
	snapshot, err := cache.NewSnapshot("1", map[resource.Type][]types.Resource{
		resource.ListenerType: {listening},
		resource.RouteType:    {routes()},
	})
	if err != nil {
		return nil, err
	}
	snapshots := cache.NewSnapshotCache(false, oneNode{}, nil)
	isHealth := func(typeURL string) string {
		if typeURL == healthType {
			return typeURL
		}
		return ""
	}
	mux := &cache.MuxCache{
		Classify:      func(r *cache.Request) string { return isHealth(r.GetTypeUrl()) },
		ClassifyDelta: func(r *cache.DeltaRequest) string { return isHealth(r.GetTypeUrl()) },
		Caches:        map[string]cache.Cache{"": snapshots, healthType: silent{}},
	}
	return mux, snapshots.SetSnapshot(context.Background(), "any", snapshot)
}

func listenerAt(host string, number uint32) (*listener.Listener, error) {
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
	port := &core.SocketAddress_PortValue{PortValue: number}
	return &listener.Listener{
		Name: "web",
		Address: &core.Address{Address: &core.Address_SocketAddress{
			SocketAddress: &core.SocketAddress{Address: host, PortSpecifier: port},
		}},
		FilterChains: []*listener.FilterChain{{Filters: []*listener.Filter{{
			Name:       "envoy.filters.network.http_connection_manager",
			ConfigType: &listener.Filter_TypedConfig{TypedConfig: manager},
		}}}},
	}, nil
}

func routes() *route.RouteConfiguration {
	return &route.RouteConfiguration{
		Name: "web",
		VirtualHosts: []*route.VirtualHost{{
			Name:    "web",
			Domains: []string{"*"},
			Routes: []*route.Route{{
				Match:  &route.RouteMatch{PathSpecifier: &route.RouteMatch_Prefix{Prefix: "/"}},
				Action: &route.Route_DirectResponse{DirectResponse: &route.DirectResponseAction{Status: 200}},
			}},
		}},
	}
}
