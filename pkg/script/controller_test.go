package script

import (
	"cmp"
	"fmt"
	"os"
	"strings"
	"testing"
	"testing/fstest"
)

func TestAnIngressOfAnotherControllerIsRefused(t *testing.T) {
	t.Parallel()
	nginx, alb := &Capabilities{Weights: true, Controllers: []string{"ingress-nginx", "Higress", "MSE"}}, &Capabilities{Weights: true, Controllers: []string{"the ALB of Alibaba Cloud"}}
	const ofAWS = "its class is alb, of the AWS Load Balancer Controller, and not of ingress-nginx, Higress, MSE, for which the script writes; " +
		"use an HTTPRoute of the AWS Load Balancer Controller"
	for name, c := range map[string]struct {
		can         *Capabilities
		class       *IngressClass
		annotations map[string]string
		want        string // the beginning; "" for no refusal
	}{
		"by its IngressClass":                        {nginx, &IngressClass{Name: "alb", Controller: "ingress.k8s.aws/alb"}, nil, ofAWS},
		"by its IngressClass, whatever its name":     {nginx, &IngressClass{Name: "nginx", Controller: "traefik.io/ingress-controller"}, nil, "its class is nginx, of Traefik,"},
		"one of several controllers of one kind":     {nginx, &IngressClass{Name: "edge", Controller: "projectcontour.io/projectcontour/contour"}, nil, "its class is edge, of Contour,"},
		"by the name of its class":                   {nginx, &IngressClass{Name: "kong-internal"}, nil, "its class is kong-internal, of Kong,"},
		"by a name that two controllers use":         {nginx, &IngressClass{Name: "alb"}, nil, "its class is alb, of the AWS Load Balancer Controller or the ALB of Alibaba Cloud, and not"},
		"by the default class":                       {nginx, &IngressClass{Name: "edge", Controller: "ingress.k8s.aws/alb", Default: true}, nil, "it has no class, and the default class of the cluster is edge, of the AWS"},
		"by annotations, without a class":            {nginx, &IngressClass{}, map[string]string{"traefik.ingress.kubernetes.io/router.tls": "true"}, "its annotations belong to Traefik,"},
		"the controller of F5, of the class nginx":   {nginx, &IngressClass{Name: "nginx", Controller: "nginx.org/ingress-controller"}, nil, "its class is nginx, of the NGINX Ingress Controller of F5,"},
		"a script for an ALB, on ingress-nginx":      {alb, &IngressClass{Name: "web", Controller: "k8s.io/ingress-nginx"}, nil, "its class is web, of ingress-nginx, and not of the ALB of Alibaba Cloud, for which the script writes; set classType: nginx"},
		"ingress-nginx":                              {nginx, &IngressClass{Name: "public", Controller: "k8s.io/ingress-nginx"}, nil, ""},
		"ingress-nginx of AKS":                       {nginx, &IngressClass{Name: "webapprouting.kubernetes.azure.com", Controller: "webapprouting.kubernetes.azure.com/nginx"}, nil, ""},
		"ingress-nginx of AKS, by its name":          {nginx, &IngressClass{Name: "webapprouting.kubernetes.azure.com"}, nil, ""},
		"Higress, which reads the same":              {nginx, &IngressClass{Name: "higress"}, nil, ""},
		"a controller that nobody knows":             {nginx, &IngressClass{Name: "alb", Controller: "example.com/edge"}, nil, ""},
		"a class that nobody knows":                  {nginx, &IngressClass{Name: "edge"}, map[string]string{"traefik.ingress.kubernetes.io/router.tls": "true"}, ""},
		"a class of a cloud, of ingress-nginx":       {nginx, &IngressClass{Name: "azure-internal"}, nil, ""},
		"the class of a cloud":                       {nginx, &IngressClass{Name: "azure-application-gateway"}, nil, "its class is azure-application-gateway, of Application Gateway,"},
		"a name that its annotations contradict":     {nginx, &IngressClass{Name: "kong-edge"}, map[string]string{"nginx.ingress.kubernetes.io/rewrite-target": "/"}, ""},
		"no class":                                   {nginx, &IngressClass{}, nil, ""},
		"annotations of two controllers":             {nginx, &IngressClass{}, map[string]string{"konghq.com/plugins": "a", "nginx.ingress.kubernetes.io/rewrite-target": "/"}, ""},
		"an ALB of Alibaba Cloud by its name":        {alb, &IngressClass{Name: "alb"}, map[string]string{"alb.ingress.kubernetes.io/order": "4"}, ""},
		"an ALB of Alibaba Cloud by its annotations": {alb, &IngressClass{}, map[string]string{"alb.ingress.kubernetes.io/order": "4"}, ""},
		"a script that names no controllers":         {&Capabilities{Weights: true}, &IngressClass{Name: "alb", Controller: "ingress.k8s.aws/alb"}, nil, ""},
		"a class that is unknown":                    {nginx, nil, nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := c.can.StepRefusal(Input{StableService: "web", CanaryService: "web-canary", CanaryWeight: 20, Class: c.class, Annotations: c.annotations})
			if !strings.HasPrefix(got, c.want) || c.want == "" && got != "" {
				t.Errorf("got  %s\nwant %s", cmp.Or(got, "no refusal"), cmp.Or(c.want, "no refusal"))
			}
		})
	}
}

func TestAClassTypeWithoutAScriptIsToldWhatSharesTraffic(t *testing.T) {
	t.Parallel()
	for class, want := range map[string]string{
		"aws-alb": ". Use an HTTPRoute of the AWS Load Balancer Controller, or set classType: aliyun-alb for an ALB of Alibaba Cloud; or add key lua.traffic.routing.ingress.aws-alb to ",
		"kong":    ". Name an HTTPRoute, which Kong uses to share traffic; or add key ",
		"edge":    ". Add key lua.traffic.routing.ingress.edge to ",
	} {
		_, err := NewLibrary(fstest.MapFS{}, "").FindIngress(class, ConfigMap{})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %s", class, err, want)
		}
	}
}

func TestThePageListsEveryIngressController(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/gateways.md")
	if err != nil {
		t.Fatal(err)
	}
	quoted := func(list []string) string {
		var all []string
		for _, text := range list {
			if strings.HasSuffix(text, "/") {
				text += "*"
			}
			all = append(all, "`"+text+"`")
		}
		return cmp.Or(strings.Join(all, ", "), "-")
	}
	for _, c := range ingressControllers {
		if row := fmt.Sprintf("| %s | %s | %s | %s |\n", c.name, quoted(c.values), quoted(c.words), c.instead); !strings.Contains(string(page), row) {
			t.Errorf("docs/gateways.md lacks the row\n%s", row)
		}
	}
}
