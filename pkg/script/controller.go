package script

import (
	"fmt"
	"slices"
	"strings"
	"unicode"
)

// IngressClass is the class of an object that an Ingress controller serves.
type IngressClass struct {
	// Name comes from spec.ingressClassName, or from the annotation
	// kubernetes.io/ingress.class. It is "" for an object without a class in a
	// cluster without a default class.
	Name string
	// Controller is spec.controller of the IngressClass; "" if the IngressClass does
	// not exist, or the executor may not read it.
	Controller string
	// Default: the object names no class, and gets the default class of the cluster.
	Default bool
}

// ingressController is a controller of Ingresses.
type ingressController struct {
	// name is the name in messages and in the capabilities' controllers.
	name string
	// values are the values of spec.controller in its IngressClasses. A value with a
	// slash at its end stands for all values that begin with it.
	values []string
	// words are words in the names of its classes. Sluice uses them if it can read
	// no IngressClass.
	words []string
	// annotations is the prefix of the annotations that only this controller reads.
	annotations string
	// instead tells users how this controller shares traffic.
	instead string
}

const anotherGateway = "use an HTTPRoute with a Gateway of another controller"

// ingressControllers are the controllers that the Kubernetes documentation lists,
// and the controllers of clouds. The values come from their manifests and documents.
var ingressControllers = []ingressController{
	{"ingress-nginx", []string{"k8s.io/ingress-nginx", "webapprouting.kubernetes.azure.com/"}, []string{"nginx", "webapprouting"},
		"nginx.ingress.kubernetes.io/", "set classType: nginx"},
	{"Higress", []string{"higress.io/higress-controller"}, []string{"higress"}, "higress.io/", "set classType: higress"},
	{"MSE", []string{"mse.alibabacloud.com/ingress"}, []string{"mse"}, "mse.ingress.kubernetes.io/", "set classType: mse"},
	{"the AWS Load Balancer Controller", []string{"ingress.k8s.aws/alb", "eks.amazonaws.com/alb"}, []string{"alb"},
		"alb.ingress.kubernetes.io/", "use an HTTPRoute of the AWS Load Balancer Controller"},
	{"the ALB of Alibaba Cloud", []string{"ingress.k8s.alibabacloud/alb"}, []string{"alb"}, "alb.ingress.kubernetes.io/", "set classType: aliyun-alb for an ALB of Alibaba Cloud"},
	{"the NGINX Ingress Controller of F5", []string{"nginx.org/ingress-controller"}, nil, "nginx.org/", "use an HTTPRoute with NGINX Gateway Fabric"},
	{"GKE", []string{"k8s.io/ingress-gce", "networking.gke.io/"}, []string{"gce"}, "networking.gke.io/", "use an HTTPRoute with a Gateway of GKE"},
	{"Application Gateway", []string{"azure/application-gateway", "alb.networking.azure.io/"}, []string{"azure-application-gateway", "azure-alb-external", "azure-alb-internal"},
		"appgw.ingress.kubernetes.io/", "use an HTTPRoute with Application Gateway for Containers"},
	{"Traefik", []string{"traefik.io/ingress-controller"}, []string{"traefik"}, "traefik.ingress.kubernetes.io/", "name an IngressRoute of Traefik, or an HTTPRoute"},
	{"HAProxy", []string{"haproxy.org/ingress-controller", "haproxy.org/ingress-controller/"}, []string{"haproxy"}, "haproxy.org/", anotherGateway},
	{"HAProxy Ingress", []string{"haproxy-ingress.github.io/controller", "haproxy-ingress.github.io/controller/"}, []string{"haproxy"},
		"haproxy-ingress.github.io/", "use an HTTPRoute with a Gateway of HAProxy Ingress"},
	{"Kong", []string{"ingress-controllers.konghq.com/"}, []string{"kong"}, "konghq.com/", "name an HTTPRoute, which Kong uses to share traffic"},
	{"Contour", []string{"projectcontour.io/"}, []string{"contour"}, "projectcontour.io/", "use an HTTPRoute with a Gateway of Contour"},
	{"Istio", []string{"istio.io/ingress-controller"}, []string{"istio"}, "", "name a VirtualService, or an HTTPRoute with a Gateway of Istio"},
	{"Cilium", []string{"cilium.io/ingress-controller"}, []string{"cilium"}, "ingress.cilium.io/", "use an HTTPRoute with a Gateway of Cilium"},
	{"APISIX", []string{"apisix.apache.org/"}, []string{"apisix"}, "k8s.apisix.apache.org/", "name an ApisixRoute"},
	{"Emissary", []string{"getambassador.io/ingress-controller"}, []string{"ambassador", "emissary"}, "getambassador.io/", anotherGateway},
	{"Skipper", []string{"zalando.org/"}, []string{"skipper"}, "zalando.org/", anotherGateway},
	{"the router of OpenShift", []string{"openshift.io/ingress-to-route"}, []string{"openshift-default"}, "route.openshift.io/", anotherGateway},
	{"Tailscale", []string{"tailscale.com/ts-ingress"}, []string{"tailscale"}, "tailscale.com/", anotherGateway},
	{"ngrok", []string{"k8s.ngrok.com/ingress-controller"}, []string{"ngrok"}, "k8s.ngrok.com/", anotherGateway},
	{"Pomerium", []string{"pomerium.io/ingress-controller"}, []string{"pomerium"}, "ingress.pomerium.io/", anotherGateway},
	{"NetScaler", []string{"citrix.com/ingress-controller"}, []string{"citrix", "netscaler"}, "ingress.citrix.com/", anotherGateway},
	{"the CLB of Tencent Cloud", nil, []string{"qcloud"}, "kubernetes.io/ingress.qcloud", anotherGateway},
	{"Avi", []string{"ako.vmware.com/avi-lb"}, []string{"avi"}, "aviinfrasetting.ako.vmware.com/", anotherGateway},
	{"F5 BIG-IP", []string{"f5.com/cntr-ingress-svcs"}, []string{"f5"}, "virtual-server.f5.com/", anotherGateway},
}

// readsAnnotation reports whether an object has an annotation that only this
// controller reads.
func (c ingressController) readsAnnotation(annotations map[string]string) bool {
	for key := range annotations {
		if c.annotations != "" && strings.HasPrefix(key, c.annotations) {
			return true
		}
	}
	return false
}

func namesOfControllers() []string {
	var names []string
	for _, c := range ingressControllers {
		names = append(names, c.name)
	}
	return names
}

// controllersOf returns the controllers that may serve an object with this class and
// these annotations, or none if it cannot tell. It uses the controller of the
// IngressClass, else the name of the class, else the annotations.
func controllersOf(class IngressClass, annotations map[string]string) []ingressController {
	for _, serves := range []func(ingressController) bool{
		func(c ingressController) bool {
			return slices.ContainsFunc(c.values, func(value string) bool {
				return class.Controller == value || strings.HasSuffix(value, "/") && strings.HasPrefix(class.Controller, value)
			})
		},
		func(c ingressController) bool {
			words := strings.FieldsFunc(class.Name, func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) })
			return class.Controller == "" && slices.ContainsFunc(append(words, class.Name), func(word string) bool { return slices.Contains(c.words, word) })
		},
		func(c ingressController) bool {
			return class.Controller == "" && class.Name == "" && c.readsAnnotation(annotations)
		},
	} {
		var found []ingressController
		for _, c := range ingressControllers {
			if serves(c) {
				found = append(found, c)
			}
		}
		if found != nil {
			return found
		}
	}
	return nil
}

// classRefusal returns the reason why the controller of the object does not
// understand the output of the script. It returns "" if the controller does, or if
// the class is unknown.
func (c *Capabilities) classRefusal(in Input) string {
	if in.Class == nil || len(c.Controllers) == 0 {
		return ""
	}
	serving := controllersOf(*in.Class, in.Annotations)
	does := func(s ingressController) bool { return slices.Contains(c.Controllers, s.name) }
	guessed := in.Class.Controller == "" && slices.ContainsFunc(ingressControllers, func(s ingressController) bool { return does(s) && s.readsAnnotation(in.Annotations) })
	if len(serving) == 0 || guessed || slices.ContainsFunc(serving, does) {
		return ""
	}
	var names []string
	for _, s := range serving {
		names = append(names, s.name)
	}
	what := "its annotations belong to "
	switch {
	case in.Class.Default:
		what = fmt.Sprintf("it has no class, and the default class of the cluster is %s, of ", in.Class.Name)
	case in.Class.Name != "":
		what = fmt.Sprintf("its class is %s, of ", in.Class.Name)
	}
	return fmt.Sprintf("%s%s, and not of %s, for which the script writes; %s", what, strings.Join(names, " or "), strings.Join(c.Controllers, ", "), insteadOf(serving))
}

// insteadOf tells users how these controllers share traffic, without repetitions.
func insteadOf(controllers []ingressController) string {
	var all []string
	for _, c := range controllers {
		if !slices.Contains(all, c.instead) {
			all = append(all, c.instead)
		}
	}
	return strings.Join(all, ", or ")
}
