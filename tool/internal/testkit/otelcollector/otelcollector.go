// Package otelcollector starts the OTLP receiver of the OpenTelemetry collector, which is the collector's own code.
package otelcollector

import (
	"context"
	"net"
	"testing"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/confmap"
	"go.opentelemetry.io/collector/consumer/consumertest"
	"go.opentelemetry.io/collector/receiver/otlpreceiver"
	"go.opentelemetry.io/collector/receiver/receivertest"
	"go.opentelemetry.io/collector/receiver/xreceiver"
)

// A Receiver keeps what it receives.
type Receiver struct {
	GRPC, HTTP string // addresses, as http://127.0.0.1:4317
	Metrics    consumertest.MetricsSink
	Profiles   consumertest.ProfilesSink
}

// Start starts a receiver, which ends with the test.
func Start(t testing.TB) *Receiver {
	t.Helper()
	grpc, http := freeAddress(t), freeAddress(t)
	r := &Receiver{GRPC: "http://" + grpc, HTTP: "http://" + http}
	factory := otlpreceiver.NewFactory()
	config := factory.CreateDefaultConfig()
	err := confmap.NewFromStringMap(map[string]any{"protocols": map[string]any{
		"grpc": map[string]any{"endpoint": grpc},
		"http": map[string]any{"endpoint": http},
	}}).Unmarshal(config)
	if err != nil {
		t.Fatal(err)
	}
	ctx, settings := context.Background(), receivertest.NewNopSettings(factory.Type())
	metrics, err := factory.CreateMetrics(ctx, settings, config, &r.Metrics)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := factory.(xreceiver.Factory).CreateProfiles(ctx, settings, config, &r.Profiles); err != nil {
		t.Fatal(err)
	}
	start(t, metrics)
	return r
}

// start starts the one receiver that all signals of a configuration share.
func start(t testing.TB, receiver component.Component) {
	t.Helper()
	if err := receiver.Start(context.Background(), componenttest.NewNopHost()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := receiver.Shutdown(context.Background()); err != nil {
			t.Error(err)
		}
	})
}

func freeAddress(t testing.TB) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	return listener.Addr().String()
}
