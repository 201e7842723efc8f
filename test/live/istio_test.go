//go:build linux

package live

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sluice.dev/sluice/test/ports"
	"sluice.dev/sluice/test/world"
)

// istiod starts Istio's control plane and returns the address at which it serves its routes. It leaves out metrics
// about both ends of a connection, and certificates. These would need Istio's own build of Envoy, or an agent.
func istiod(t *testing.T, w *world.World) string {
	t.Helper()
	if out, err := w.Kubectl(t.Context(), "create", "namespace", "istio-system"); err != nil && !strings.Contains(err.Error(), "AlreadyExists") {
		t.Fatal(err, out)
	}
	mesh := filepath.Join(t.TempDir(), "mesh")
	if err := os.WriteFile(mesh, []byte("enableAutoMtls: false\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	address := ports.Address(t)
	begin(t, program("sluice-istiod", "discovery", "--kubeconfig", w.Kubeconfig, "--meshConfig", mesh, "--grpcAddr", address,
		"--httpsAddr=", "--secureGRPCAddr=", "--httpAddr", ports.Address(t), "--monitoringAddr", ports.Address(t), "--ctrlz_port=0"),
		"POD_NAMESPACE=istio-system", "JWT_POLICY=first-party-jwt", "PILOT_SCOPE_GATEWAY_TO_NAMESPACE=true",
		"PILOT_ENABLE_GATEWAY_API_DEPLOYMENT_CONTROLLER=false", "PILOT_ENABLE_METADATA_EXCHANGE=false", "PILOT_ENABLE_ALPN_FILTER=false")
	return address
}

// grpcClient starts a client that takes its routes from Istio. The client replaces a gateway: HTTP requests to it
// become gRPC calls.
func grpcClient(t *testing.T, w *world.World, ns string) (url, host string) {
	t.Helper()
	address := ports.Address(t)
	begin(t, program("sluice-grpc", "-listen", address, "-istiod", istiod(t, w), "-namespace", ns))
	return "http://" + address + "/shop.Shop/Buy", "web." + ns + ".svc.cluster.local:80"
}

// bootstrap is the configuration with which Envoy takes all other configuration from Istio, as one of its gateways.
const bootstrap = `{
	"node": {"id": "router~127.0.0.1~edge.%[1]s~%[1]s.svc.cluster.local", "cluster": "edge.%[1]s",
		"metadata": {"NAMESPACE": %[1]q, "CLUSTER_ID": "Kubernetes", "LABELS": {"istio": "edge"}}},
	"dynamic_resources": {
		"lds_config": {"ads": {}, "resource_api_version": "V3"}, "cds_config": {"ads": {}, "resource_api_version": "V3"},
		"ads_config": {"api_type": "DELTA_GRPC", "transport_api_version": "V3", "grpc_services": [{"envoy_grpc": {"cluster_name": "istiod"}}]}
	},
	"static_resources": {"clusters": [{"name": "istiod", "type": "STATIC",
		"load_assignment": {"cluster_name": "istiod", "endpoints": [{"lb_endpoints": [
			{"endpoint": {"address": {"socket_address": {"address": %[2]q, "port_value": %[3]s}}}}]}]},
		"typed_extension_protocol_options": {"envoy.extensions.upstreams.http.v3.HttpProtocolOptions": {
			"@type": "type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions",
			"explicit_http_config": {"http2_protocol_options": {}}}}}]}
}`

// envoy starts Envoy as a gateway of Istio.
func envoy(t *testing.T, w *world.World, ns string) (string, string) {
	t.Helper()
	control, port, err := net.SplitHostPort(istiod(t, w))
	if err != nil {
		t.Fatal(err)
	}
	begin(t, program("envoy", "--config-yaml", fmt.Sprintf(bootstrap, ns, control, port), "--use-dynamic-base-id", "--concurrency", "2", "--log-level", "warning"))
	return "http://" + ports.Address(t) + "/", outside(ns)
}
