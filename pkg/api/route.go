package api

// TrafficRoutingRef says through which Service and which gateway objects the traffic of
// the workload flows. At least one of Ingress, Gateway, CustomNetworkRefs and NetworkRefs
// is set.
type TrafficRoutingRef struct {
	// The Service that selects the pods of the workload.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	Service string `json:"service,omitempty"`
	// Seconds to wait before something goes away that traffic might still reach; 0 does not wait.
	// +optional
	// +kubebuilder:default=3
	// +kubebuilder:validation:Minimum=0
	GracePeriodSeconds *int32 `json:"gracePeriodSeconds,omitempty"`
	// Route through an Ingress.
	// +optional
	Ingress *IngressTrafficRouting `json:"ingress,omitempty"`
	// Route through the Gateway API.
	// +optional
	Gateway *GatewayTrafficRouting `json:"gateway,omitempty"`
	// Route through these objects, of any kind for which there is a Lua script.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	CustomNetworkRefs []ObjectRef `json:"customNetworkRefs,omitempty"`
	// Another name for customNetworkRefs.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	NetworkRefs []ObjectRef `json:"networkRefs,omitempty"`
	// Names of those rules of the gateway objects that the release may touch. Absent: all that lead to the Service.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=253
	Routes []string `json:"routes,omitempty"`
	// A header that goes with the requests for the canary from one application to the next.
	// +optional
	Tag *TrafficTag `json:"tag,omitempty"`
	// Whether a canary Service is made; the inverse of disableGenerateCanaryService.
	// +optional
	CreateCanaryService *bool `json:"createCanaryService,omitempty"`
	// Do not make a canary Service for this routing.
	// +optional
	DisableGenerateCanaryService *bool `json:"disableGenerateCanaryService,omitempty"`
	// Another place for the strategy's patchPodTemplateMetadata.
	// +optional
	PatchPodTemplateMetadata *PodTemplateMetadata `json:"patchPodTemplateMetadata,omitempty"`
}

// TrafficTag is a header that marks requests for canaries, so that several applications on the path of a request can be released together.
// Once a step sends requests to a canary, requests with the header go to it regardless of the share, and the gateway adds the header to
// each request that goes to it.
type TrafficTag struct {
	// Name of the header.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	// +kubebuilder:validation:Pattern=`^[A-Za-z0-9!#$%&'*+\-.^_\x60|~]+$`
	Header string `json:"header"`
	// Value of the header.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=4096
	Value string `json:"value"`
	// Label with that value for the pods of the canary workload, as patchPodTemplateMetadata has them.
	// +optional
	// +kubebuilder:validation:MaxLength=316
	Label string `json:"label,omitempty"`
}

// IngressTrafficRouting names an Ingress and the class of its controller.
type IngressTrafficRouting struct {
	// Class of the Ingress controller, which selects the Lua script. Empty means nginx.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	ClassType string `json:"classType,omitempty"`
	// Name of the Ingress that routes to the stable Service.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
}

// GatewayTrafficRouting names a route of the Gateway API.
type GatewayTrafficRouting struct {
	// Name of the HTTPRoute that routes to the stable Service.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	HTTPRouteName *string `json:"httpRouteName,omitempty"`
}
