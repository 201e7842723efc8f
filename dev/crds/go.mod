// The modules that publish the definitions of gateway kinds and of kinds that an installation uses, and examples of gateway kinds. Their files are read; nothing of them is compiled.
module sluice.dev/sluice/dev/crds

go 1.26.0

require (
	github.com/apache/apisix-ingress-controller v1.8.4
	github.com/cert-manager/cert-manager v1.21.2
	github.com/kedacore/keda/v2 v2.21.0
	github.com/kumahq/kuma v1.8.1
	github.com/prometheus-operator/prometheus-operator v0.85.0
	github.com/traefik/traefik/v3 v3.7.10
	istio.io/istio v0.0.0-20260423205519-b01690e6db7d
	sigs.k8s.io/gateway-api v1.6.3
	sigs.k8s.io/gateway-api-inference-extension v1.5.0
)
