// Package rbac reads the grants to service accounts from the shipped manifests. It sends no request to an API server.
//
// Its one invariant: `sluice check` asks for the rights that `sluice install --print` grants.
package rbac

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"

	"sluice.dev/sluice/pkg/preflight"
)

// roles holds the RBAC objects of a stream of manifests.
type roles struct {
	clusterRoles map[string]rbacv1.ClusterRole
	roles        map[string]rbacv1.Role
	bindings     []binding
}

type binding struct {
	namespace string
	role      rbacv1.RoleRef
	subjects  []rbacv1.Subject
}

// ReadGrants reads a YAML stream and lists its grants to service accounts. It skips objects of other kinds.
func ReadGrants(stream []byte) ([]preflight.Grant, error) {
	r := roles{clusterRoles: map[string]rbacv1.ClusterRole{}, roles: map[string]rbacv1.Role{}}
	documents := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(stream)))
	for {
		document, err := documents.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err == nil {
			err = r.addObject(document)
		}
		if err != nil {
			return nil, fmt.Errorf("read manifests: %w", err)
		}
	}
	return r.listGrants()
}

func (r *roles) addObject(document []byte) error {
	var kind metav1.TypeMeta
	if err := yaml.Unmarshal(document, &kind); err != nil {
		return err
	}
	switch kind.Kind {
	case "ClusterRole":
		var o rbacv1.ClusterRole
		if err := yaml.UnmarshalStrict(document, &o); err != nil {
			return err
		}
		r.clusterRoles[o.Name] = o
	case "Role":
		var o rbacv1.Role
		if err := yaml.UnmarshalStrict(document, &o); err != nil {
			return err
		}
		r.roles[o.Namespace+"/"+o.Name] = o
	case "ClusterRoleBinding":
		var o rbacv1.ClusterRoleBinding
		if err := yaml.UnmarshalStrict(document, &o); err != nil {
			return err
		}
		r.bindings = append(r.bindings, binding{"", o.RoleRef, o.Subjects})
	case "RoleBinding":
		var o rbacv1.RoleBinding
		if err := yaml.UnmarshalStrict(document, &o); err != nil {
			return err
		}
		r.bindings = append(r.bindings, binding{o.Namespace, o.RoleRef, o.Subjects})
	}
	return nil
}

func (r *roles) listGrants() ([]preflight.Grant, error) {
	var grants []preflight.Grant
	for _, b := range r.bindings {
		rules, err := r.rulesOf(b)
		if err != nil {
			return nil, err
		}
		for _, s := range b.subjects {
			if s.Kind == rbacv1.ServiceAccountKind && len(rules) > 0 {
				grants = append(grants, preflight.Grant{ServiceAccount: s.Name, Namespace: b.namespace, Rules: rules})
			}
		}
	}
	return grants, nil
}

func (r *roles) rulesOf(b binding) ([]rbacv1.PolicyRule, error) {
	if b.role.Kind == "Role" {
		return r.roles[b.namespace+"/"+b.role.Name].Rules, nil
	}
	role := r.clusterRoles[b.role.Name]
	if role.AggregationRule == nil {
		return role.Rules, nil
	}
	var rules []rbacv1.PolicyRule
	for _, s := range role.AggregationRule.ClusterRoleSelectors {
		selector, err := metav1.LabelSelectorAsSelector(&s)
		if err != nil {
			return nil, fmt.Errorf("read aggregation of ClusterRole %s: %w", role.Name, err)
		}
		for _, other := range r.clusterRoles {
			if selector.Matches(labels.Set(other.Labels)) {
				rules = append(rules, other.Rules...)
			}
		}
	}
	return rules, nil
}
