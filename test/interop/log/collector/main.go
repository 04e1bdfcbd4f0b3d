// A collector of OpenTelemetry with its own receiver, and an exporter that has written each record to a file before
// the receiver answers: what a killed collector has accepted is there.
package main

import (
	"context"
	"log"
	"os"
	"sync"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/confmap"
	"go.opentelemetry.io/collector/confmap/provider/yamlprovider"
	"go.opentelemetry.io/collector/exporter"
	"go.opentelemetry.io/collector/exporter/exporterhelper"
	"go.opentelemetry.io/collector/otelcol"
	"go.opentelemetry.io/collector/pdata/plog"
	"go.opentelemetry.io/collector/pdata/pmetric"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/collector/receiver/otlpreceiver"
	"go.opentelemetry.io/collector/service/telemetry/otelconftelemetry"
)

type fileConfig struct {
	Path string `mapstructure:"path"`
}

// linesTo makes a function that appends a request as a line of JSON.
func linesTo[Request any](config component.Config, marshal func(Request) ([]byte, error)) (func(context.Context, Request) error, error) {
	file, err := os.OpenFile(config.(*fileConfig).Path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	var lock sync.Mutex
	return func(_ context.Context, request Request) error {
		octets, err := marshal(request)
		if err != nil {
			return err
		}
		lock.Lock()
		defer lock.Unlock()
		_, err = file.Write(append(octets, '\n'))
		return err
	}, nil
}

func newLogs(ctx context.Context, settings exporter.Settings, config component.Config) (exporter.Logs, error) {
	write, err := linesTo(config, (&plog.JSONMarshaler{}).MarshalLogs)
	if err != nil {
		return nil, err
	}
	return exporterhelper.NewLogs(ctx, settings, config, write)
}

func newMetrics(ctx context.Context, settings exporter.Settings, config component.Config) (exporter.Metrics, error) {
	write, err := linesTo(config, (&pmetric.JSONMarshaler{}).MarshalMetrics)
	if err != nil {
		return nil, err
	}
	return exporterhelper.NewMetrics(ctx, settings, config, write)
}

func newTraces(ctx context.Context, settings exporter.Settings, config component.Config) (exporter.Traces, error) {
	write, err := linesTo(config, (&ptrace.JSONMarshaler{}).MarshalTraces)
	if err != nil {
		return nil, err
	}
	return exporterhelper.NewTraces(ctx, settings, config, write)
}

func factories() (otelcol.Factories, error) {
	exporterFactory := exporter.NewFactory(
		component.MustNewType("lines"),
		func() component.Config { return &fileConfig{} },
		exporter.WithLogs(newLogs, component.StabilityLevelStable),
		exporter.WithMetrics(newMetrics, component.StabilityLevelStable),
		exporter.WithTraces(newTraces, component.StabilityLevelStable),
	)
	exporters, err := otelcol.MakeFactoryMap(exporterFactory)
	if err != nil {
		return otelcol.Factories{}, err
	}
	receivers, err := otelcol.MakeFactoryMap(otlpreceiver.NewFactory())
	if err != nil {
		return otelcol.Factories{}, err
	}
	return otelcol.Factories{
		Receivers: receivers,
		Exporters: exporters,
		Telemetry: otelconftelemetry.NewFactory(),
	}, nil
}

func main() {
	settings := otelcol.CollectorSettings{
		BuildInfo: component.BuildInfo{Command: "collector", Version: "1"},
		Factories: factories,
		ConfigProviderSettings: otelcol.ConfigProviderSettings{
			ResolverSettings: confmap.ResolverSettings{
				DefaultScheme:     "yaml",
				ProviderFactories: []confmap.ProviderFactory{yamlprovider.NewFactory()},
			},
		},
	}
	if err := otelcol.NewCommand(settings).Execute(); err != nil {
		log.Fatal(err)
	}
}
