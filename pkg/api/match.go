package api

// HTTPRouteMatch is one set of conditions on a request; all of them must hold.
type HTTPRouteMatch struct {
	// Condition on the path.
	// +optional
	Path *HTTPPathMatch `json:"path,omitempty"`
	// Conditions on headers.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=16
	Headers []HTTPHeaderMatch `json:"headers,omitempty"`
	// Conditions on query parameters.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=16
	QueryParams []HTTPQueryParamMatch `json:"queryParams,omitempty"`
	// Condition on a cookie.
	// +optional
	Cookie *HTTPCookieMatch `json:"cookie,omitempty"`
}

// HTTPPathMatch is a condition on the path of a request.
type HTTPPathMatch struct {
	// How value is compared.
	// +optional
	// +kubebuilder:default=PathPrefix
	// +kubebuilder:validation:Enum=Exact;PathPrefix;RegularExpression
	Type *string `json:"type,omitempty"`
	// The path, prefix or regular expression.
	// +optional
	// +kubebuilder:default="/"
	// +kubebuilder:validation:MaxLength=1024
	Value *string `json:"value,omitempty"`
}

// HTTPHeaderMatch is a condition on a header of a request.
type HTTPHeaderMatch struct {
	// How value is compared.
	// +optional
	// +kubebuilder:default=Exact
	// +kubebuilder:validation:Enum=Exact;Prefix;RegularExpression
	Type *string `json:"type,omitempty"`
	// Name of the header; case does not matter.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	// +kubebuilder:validation:Pattern=`^[A-Za-z0-9!#$%&'*+\-.^_\x60|~]+$`
	Name string `json:"name"`
	// The value or regular expression.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=4096
	Value string `json:"value"`
}

// HTTPCookieMatch is a condition on a cookie of a request.
type HTTPCookieMatch struct {
	// How value is compared.
	// +optional
	// +kubebuilder:default=Exact
	// +kubebuilder:validation:Enum=Exact;RegularExpression
	Type *string `json:"type,omitempty"`
	// Name of the cookie; case matters.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	// +kubebuilder:validation:Pattern=`^[A-Za-z0-9!#$%&'*+\-.^_\x60|~]+$`
	Name string `json:"name"`
	// The value or regular expression.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	Value string `json:"value"`
}

// HTTPQueryParamMatch is a condition on a query parameter of a request.
type HTTPQueryParamMatch struct {
	// How value is compared.
	// +optional
	// +kubebuilder:default=Exact
	// +kubebuilder:validation:Enum=Exact;RegularExpression
	Type *string `json:"type,omitempty"`
	// Name of the parameter; case matters.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	// +kubebuilder:validation:Pattern=`^[A-Za-z0-9!#$%&'*+\-.^_\x60|~]+$`
	Name string `json:"name"`
	// The value or regular expression.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	Value string `json:"value"`
}

// Ways in which a match compares.
const (
	MatchExact             = "Exact"
	MatchPathPrefix        = "PathPrefix"
	MatchPrefix            = "Prefix"
	MatchRegularExpression = "RegularExpression"
)

// HTTPHeaderFilter changes the headers of requests.
type HTTPHeaderFilter struct {
	// Headers to set, replacing what the request carries.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=16
	Set []HTTPHeader `json:"set,omitempty"`
	// Headers to add to what the request carries.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=16
	Add []HTTPHeader `json:"add,omitempty"`
	// Names of headers to take away.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MaxLength=256
	Remove []string `json:"remove,omitempty"`
}

// HTTPHeader is a header with its value.
type HTTPHeader struct {
	// Name of the header; case does not matter.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	// +kubebuilder:validation:Pattern=`^[A-Za-z0-9!#$%&'*+\-.^_\x60|~]+$`
	Name string `json:"name"`
	// Value of the header.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=4096
	Value string `json:"value"`
}
