package traffic

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/script"
)

// IngressScript is the script for an Ingress of a class. It leaves the Ingress unchanged, and creates a canary Ingress. The canary Ingress has the paths
// that lead to the stable Service, and the annotations that the class's own script sets. others are the Ingresses of the namespace.
func IngressScript(ctx context.Context, source script.Source, others []*unstructured.Unstructured) Script {
	return func(in script.Input) (script.Output, error) {
		if in.CanaryWeight == script.NoWeight && len(in.Matches) == 0 && in.Mirror == 0 {
			return script.Output{Spec: in.Spec}, nil
		}
		main := stringAt(in.Of, "metadata", "name")
		spec, err := canaryIngressSpec(in)
		if err != nil {
			return script.Output{}, err
		}
		if c := source.Capabilities; c != nil && c.OneCanary {
			if rival := rivalIngress(spec, in, others); rival != "" {
				return script.Output{}, &script.UnsupportedError{Reason: fmt.Sprintf(
					"Ingress %s is a canary of the same host and path, and its controller uses only one; delete it, or wait until its release has ended", rival)}
			}
		}
		copied := in
		copied.Labels, copied.Annotations = copyableMetadata(in.Labels, in.Annotations), copyableMetadata(in.Annotations, in.Annotations)
		copies, err := source.RenderIngress(ctx, copied, script.Limits{})
		if err != nil {
			return script.Output{}, err
		}
		out := script.Output{Spec: in.Spec}
		for _, c := range copies {
			annotations := orEmpty(c.Annotations)
			if source.Capabilities != nil && source.Capabilities.Orders != nil {
				orders := *source.Capabilities.Orders
				numbers, err := rangeBefore(orders, in.Annotations, "Ingress "+main)
				if err != nil {
					return script.Output{}, err
				}
				annotations[orders.Annotation] = numbers.String()
			}
			u := &unstructured.Unstructured{Object: map[string]any{"apiVersion": in.Of["apiVersion"], "kind": in.Of["kind"], "spec": spec}}
			u.SetName(canaryIngressName(main, c.Suffix, in, others))
			u.SetLabels(orNil(copied.Labels))
			u.SetAnnotations(annotations)
			out.Create = append(out.Create, u.Object)
		}
		return out, nil
	}
}

// canaryIngressName returns OpenKruise's name of the canary Ingress. It adds the Service to the name where an Ingress of another owner has it. An existing
// canary Ingress keeps its name.
func canaryIngressName(main, suffix string, in script.Input, others []*unstructured.Unstructured) string {
	if suffix != "" {
		suffix = "-" + suffix
	}
	short, long := main+api.SuffixCanary+suffix, main+"-"+in.StableService+api.SuffixCanary+suffix
	name := short
	for _, o := range others {
		switch {
		case o.GetName() == long && isCanaryIngress(o, in):
			return long
		case o.GetName() == short && !isCanaryIngress(o, in):
			name = long
		}
	}
	return name
}

// isCanaryIngress reports whether an Ingress is the canary of the same Service.
func isCanaryIngress(o *unstructured.Unstructured, in script.Input) bool {
	es := slices.Collect(maps.Values(parseEntries(o.GetAnnotations()[api.AnnotationReleases])))
	return slices.ContainsFunc(es, func(e entry) bool { return e.Service == in.StableService && e.CanaryService == in.CanaryService })
}

const (
	// annotationCanary marks an Ingress as a canary for ingress-nginx.
	annotationCanary = "nginx.ingress.kubernetes.io/canary"
	annotationClass  = "kubernetes.io/ingress.class"
)

// IngressClassOf returns the name of the class of an object that an Ingress controller serves. It reads spec.ingressClassName, else the annotation
// kubernetes.io/ingress.class; "" for none.
func IngressClassOf(u *unstructured.Unstructured) string {
	spec, _ := u.Object["spec"].(map[string]any)
	return ingressClass(spec, u.GetAnnotations())
}

func ingressClass(spec map[string]any, annotations map[string]string) string {
	return cmp.Or(firstString(spec, "ingressClassName"), annotations[annotationClass])
}

// rivalIngress returns the name of another canary Ingress that has a host and path of a canary Ingress; "" for none.
func rivalIngress(spec map[string]any, in script.Input, others []*unstructured.Unstructured) string {
	wanted, class := hostPaths(spec), ingressClass(spec, in.Annotations)
	for _, o := range others {
		canary, _ := strconv.ParseBool(o.GetAnnotations()[annotationCanary])
		if !canary || o.GetDeletionTimestamp() != nil || isCanaryIngress(o, in) {
			continue
		}
		theirs, _ := o.Object["spec"].(map[string]any)
		if ingressClass(theirs, o.GetAnnotations()) != class {
			continue
		}
		for of := range hostPaths(theirs) {
			if wanted[of] {
				return o.GetName()
			}
		}
	}
	return ""
}

// hostPath is a host and a path of an Ingress rule.
type hostPath struct{ host, path string }

func hostPaths(spec map[string]any) map[hostPath]bool {
	all := map[hostPath]bool{}
	rules, _ := spec["rules"].([]any)
	for _, rule := range rules {
		rule, _ := rule.(map[string]any)
		http, _ := rule["http"].(map[string]any)
		paths, _ := http["paths"].([]any)
		for _, path := range paths {
			path, _ := path.(map[string]any)
			all[hostPath{firstString(rule, "host"), cmp.Or(firstString(path, "path"), "/")}] = true
		}
	}
	return all
}

// canaryIngressSpec returns the part of an Ingress that leads to the stable Service, changed to lead to the canary Service.
func canaryIngressSpec(in script.Input) (map[string]any, error) {
	spec, _ := in.Spec.(map[string]any)
	canary := map[string]any{}
	for _, field := range []string{"ingressClassName", "tls"} {
		if v, ok := spec[field]; ok {
			canary[field] = v
		}
	}
	rules, _ := spec["rules"].([]any)
	var kept []any
	for _, rule := range rules {
		rule, _ := rule.(map[string]any)
		http, _ := rule["http"].(map[string]any)
		paths, _ := http["paths"].([]any)
		var toCanary []any
		for _, path := range paths {
			if path, ok := canaryPath(path, in.StableService, in.CanaryService); ok {
				toCanary = append(toCanary, path)
			}
		}
		if len(toCanary) > 0 {
			next := maps.Clone(rule)
			next["http"] = map[string]any{"paths": toCanary}
			kept = append(kept, next)
		}
	}
	if len(kept) > 0 {
		canary["rules"] = kept
		return canary, nil
	}
	if backend, _ := spec["defaultBackend"].(map[string]any); serviceIn(backend) == in.StableService {
		return nil, fmt.Errorf("only its default backend leads to Service %s, and a canary Ingress needs a path; add a rule with the path / that leads there", in.StableService)
	}
	return nil, fmt.Errorf("no path of it leads to Service %s; add one, or correct the service in trafficRoutings", in.StableService)
}

// canaryPath returns a path that leads to the stable Service, changed to lead to the canary Service.
func canaryPath(path any, stable, canary string) (map[string]any, bool) {
	from, _ := path.(map[string]any)
	backend, _ := from["backend"].(map[string]any)
	if serviceIn(backend) != stable {
		return nil, false
	}
	service := maps.Clone(backend["service"].(map[string]any))
	service["name"] = canary
	next := maps.Clone(from)
	next["backend"] = map[string]any{"service": service}
	return next, true
}

// serviceIn returns the name of the Service of a backend; "" for a backend that is not a Service.
func serviceIn(backend map[string]any) string {
	service, _ := backend["service"].(map[string]any)
	return firstString(service, "name")
}

func stringAt(object map[string]any, path ...string) string {
	name, _, _ := unstructured.NestedString(object, path...)
	return name
}
