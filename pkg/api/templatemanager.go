package api

import (
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TemplateManagers keeps, of the managers of a workload, those of its pod template, without the fields that they own.
func TemplateManagers(entries []metav1.ManagedFieldsEntry) []metav1.ManagedFieldsEntry {
	kept := slices.DeleteFunc(entries, func(e metav1.ManagedFieldsEntry) bool { return !managesTemplate(e) })
	for i := range kept {
		kept[i].FieldsV1 = nil
	}
	return slices.Clip(kept)
}

// managesTemplate reports whether an entry of another manager than Sluice is about the pod template. One without fields comes from TemplateManagers.
func managesTemplate(e metav1.ManagedFieldsEntry) bool {
	if e.Manager == FieldManager || e.Subresource != "" || e.Time == nil {
		return false
	}
	return e.FieldsV1 == nil || strings.Contains(e.FieldsV1.GetRawString(), `"f:template":`)
}

// LastTemplateManager returns the manager that changed the pod template last, other than Sluice; "" for none.
func LastTemplateManager(entries []metav1.ManagedFieldsEntry) (manager string) {
	var last metav1.Time
	for _, e := range entries {
		if managesTemplate(e) && !e.Time.Before(&last) {
			manager, last = e.Manager, *e.Time
		}
	}
	return manager
}
