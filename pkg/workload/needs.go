package workload

import (
	"cmp"
	"regexp"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
)

// RequiredObject is an object of the workload's namespace without which a pod does not start.
type RequiredObject struct {
	// Kind is ConfigMap, Secret or ServiceAccount.
	Kind, Name string
}

func (n RequiredObject) String() string { return n.Kind + " " + n.Name }

// generated matches a name that a tool ends with a digest of the object: ten characters of kustomize, or a hexadecimal number.
var generated = regexp.MustCompile(`-([2456789bcdfghkmt]{10}|[0-9a-f]{8,64})$`)

// HasGeneratedName reports whether the name ends with a digest. A tool then gives each content of the object another name.
func (n RequiredObject) HasGeneratedName() bool { return generated.MatchString(n.Name) }

// defaultAccount is the ServiceAccount that every namespace has.
const defaultAccount = "default"

// RequiredObjects returns the ConfigMaps, Secrets and ServiceAccounts that a pod template names, sorted and without duplicates. It leaves out optional
// objects, and imagePullSecrets, because a pod may start without them.
func RequiredObjects(template corev1.PodTemplateSpec) []RequiredObject {
	var all []RequiredObject
	add := func(kind, name string, optional *bool) {
		// The API server accepts any name in a volume. No object can have an invalid one, and a caller puts the name into a path.
		if need := (RequiredObject{kind, name}); len(validation.IsDNS1123Subdomain(name)) == 0 && (optional == nil || !*optional) && !slices.Contains(all, need) {
			all = append(all, need)
		}
	}
	spec := template.Spec
	if spec.ServiceAccountName != defaultAccount {
		add("ServiceAccount", spec.ServiceAccountName, nil)
	}
	for _, v := range spec.Volumes {
		if v.ConfigMap != nil {
			add("ConfigMap", v.ConfigMap.Name, v.ConfigMap.Optional)
		}
		if v.Secret != nil {
			add("Secret", v.Secret.SecretName, v.Secret.Optional)
		}
		if v.Projected == nil {
			continue
		}
		for _, source := range v.Projected.Sources {
			if source.ConfigMap != nil {
				add("ConfigMap", source.ConfigMap.Name, source.ConfigMap.Optional)
			}
			if source.Secret != nil {
				add("Secret", source.Secret.Name, source.Secret.Optional)
			}
		}
	}
	for _, container := range slices.Concat(spec.InitContainers, spec.Containers) {
		for _, from := range container.EnvFrom {
			if from.ConfigMapRef != nil {
				add("ConfigMap", from.ConfigMapRef.Name, from.ConfigMapRef.Optional)
			}
			if from.SecretRef != nil {
				add("Secret", from.SecretRef.Name, from.SecretRef.Optional)
			}
		}
		for _, env := range container.Env {
			if from := env.ValueFrom; from != nil && from.ConfigMapKeyRef != nil {
				add("ConfigMap", from.ConfigMapKeyRef.Name, from.ConfigMapKeyRef.Optional)
			}
			if from := env.ValueFrom; from != nil && from.SecretKeyRef != nil {
				add("Secret", from.SecretKeyRef.Name, from.SecretKeyRef.Optional)
			}
		}
	}
	slices.SortFunc(all, func(a, b RequiredObject) int { return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Name, b.Name)) })
	return all
}

// RequiredByOlder returns what pods of the revision with that hash need, and pods of the workload's template do not.
func (o Object) RequiredByOlder(hash string) []RequiredObject {
	for _, r := range o.controlledRevisions() {
		if o.kind().hashOf(r.Name) != hash {
			continue
		}
		if older, ok := templateIn(r); ok {
			return RequiredByOlder(older, o.podTemplate())
		}
	}
	return nil
}

// RequiredByOlder returns what pods of an older template need, and pods of a newer one do not.
func RequiredByOlder(older, newer corev1.PodTemplateSpec) []RequiredObject {
	has := RequiredObjects(newer)
	return slices.DeleteFunc(RequiredObjects(older), func(n RequiredObject) bool { return slices.Contains(has, n) })
}
