package api

// Prometheus is a Prometheus, or what speaks its HTTP API, and what it is asked.
type Prometheus struct {
	// Base of the HTTP API, such as http://prometheus.monitoring.svc:9090, without /api/v1. It has to
	// be a host that the operator of Sluice allows: by default the Services of the cluster.
	// {{args.NAME}} stands for the value of an argument.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:XValidation:rule="self.matches('^https?://[^/?#@]') || self.startsWith('{{')",message="write an address that begins with http:// or https://, such as http://prometheus.monitoring.svc:9090"
	// +kubebuilder:validation:XValidation:rule="!self.contains('@')",message="a user name and a password belong into a Secret: name it under auth.secretRef"
	// +kubebuilder:validation:XValidation:rule="!self.matches('[?#]')",message="leave out what follows ? or #: the address is what comes before /api/v1"
	Address string `json:"address"`
	// PromQL whose value is judged. A comparison has queries of its own.
	// +optional
	Query PromQL `json:"query,omitempty"`
	// Headers of each request, such as X-Scope-OrgID. Values that are not for every reader belong
	// into the Secret.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:XValidation:rule="self.all(h, !(h.name.lowerAscii() in ['host', 'connection', 'content-length', 'content-type', 'content-encoding', 'transfer-encoding', 'accept-encoding', 'te', 'trailer', 'upgrade', 'expect', 'keep-alive', 'idempotency-key', 'x-idempotency-key']))",message="headers that say how a request is sent, such as Host and Content-Type, are set by Sluice: leave them out"
	// +kubebuilder:validation:XValidation:rule="self.all(h, self.exists_one(g, g.name.lowerAscii() == h.name.lowerAscii()))",message="a header is given twice, for upper and lower case do not matter: leave one out"
	Headers []ProviderHeader `json:"headers,omitempty"`
	// Credentials, from a Secret. Absent: none are sent.
	// +optional
	Auth *ProviderAuth `json:"auth,omitempty"`
	// How long one query may take, up to 1m. Absent: 10s.
	// +optional
	// +kubebuilder:validation:XValidation:rule="!self.matches('^([0-9]{1,5}ms|[0-9]{1,5}([.][0-9]{1,3})?[smh])+$') || (duration(self) > duration('0s') && duration(self) <= duration('1m'))",message="a query may take up to 1m, and needs more than no time"
	Timeout Duration `json:"timeout,omitempty"`
}

// ProviderHeader is a header of a request.
type ProviderHeader struct {
	// Name of the header; case does not matter.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	// +kubebuilder:validation:Pattern=`^[A-Za-z0-9!#$%&'*+\-.^_\x60|~]+$`
	Name string `json:"name"`
	// Value of the header. {{args.NAME}} stands for the value of an argument.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=4096
	// +kubebuilder:validation:XValidation:rule="!self.matches('[[:cntrl:]]')",message="a header holds no line breaks and no other control characters"
	Value string `json:"value"`
}

// ProviderAuth says where credentials are.
type ProviderAuth struct {
	// A Secret in the namespace of the Rollout. These keys are used: token (bearer); username and
	// password; ca.crt (instead of the system's roots); tls.crt and tls.key (mutual TLS); header.NAME
	// (a header). A Role of the namespace has to let the service account sluice-analyzer get it.
	SecretRef SecretRef `json:"secretRef"`
}

// SecretRef names a Secret.
type SecretRef struct {
	// Name of the Secret.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-.a-z0-9]*[a-z0-9])?$`
	Name string `json:"name"`
}
