package api

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// TrafficRouting routes marked requests through a chain of services while releases that
// name it are under way.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=trafficroutings
// +kubebuilder:printcolumn:name="STATUS",type="string",JSONPath=".status.phase",description="The phase of the TrafficRouting"
// +kubebuilder:printcolumn:name="MESSAGE",type="string",JSONPath=".status.message",description="What the TrafficRouting is doing or waiting for"
// +kubebuilder:printcolumn:name="AGE",type="date",JSONPath=".metadata.creationTimestamp"
type TrafficRouting struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// The Services and gateway objects, and the routes through them.
	// +optional
	Spec TrafficRoutingSpec `json:"spec,omitempty"`
	// The observed state, and the progress of the routes.
	// +optional
	Status TrafficRoutingStatus `json:"status,omitempty"`
}

// TrafficRoutingList is a list of TrafficRoutings.
//
// +kubebuilder:object:root=true
type TrafficRoutingList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []TrafficRouting `json:"items"`
}

// TrafficRoutingSpec names the Services and gateway objects, and the routes through them.
type TrafficRoutingSpec struct {
	// The Services and gateway objects to route through. Each gateway object is named once.
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=8
	ObjectRef []TrafficRoutingRef `json:"objectRef"`
	// The requests that go to the marked version.
	Strategy TrafficRoutingStrategy `json:"strategy"`
}

// TrafficRoutingStrategy says what goes to the marked version.
type TrafficRoutingStrategy struct {
	// Share of the traffic in percent.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	Weight *int32 `json:"weight,omitempty"`
	// Changes to the headers of the requests that go there.
	// +optional
	RequestHeaderModifier *HTTPHeaderFilter `json:"requestHeaderModifier,omitempty"`
	// Requests that go there regardless of the share.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	Matches []HTTPRouteMatch `json:"matches,omitempty"`
}

// TrafficRoutingStatus is what users read of a TrafficRouting.
type TrafficRoutingStatus struct {
	// The generation of the TrafficRouting that this status is about.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// Initial, Healthy, Progressing, Finalizing or Terminating.
	// +optional
	Phase RoutingPhase `json:"phase,omitempty"`
	// The current activity or wait of the TrafficRouting.
	// +optional
	Message string `json:"message,omitempty"`
	// The generation that all gateway objects route by now; 0 while not all of them do.
	// +optional
	AppliedGeneration int64 `json:"appliedGeneration,omitempty"`
	// The gateway objects that may carry the routing now.
	// +optional
	// +listType=atomic
	Objects []ObjectRef `json:"objects,omitempty"`
}
