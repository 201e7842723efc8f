package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/yaml"

	"sluice.dev/sluice/cmd/internal/view"
	"sluice.dev/sluice/cmd/sluice/internal/table"
	"sluice.dev/sluice/pkg/api"
)

// getTable shows the table of the API server, with the printer columns of the CRD.
func (c *cli) getTable(ctx context.Context, name string, o getOptions) error {
	config, namespace, err := c.clusterConfig()
	if err != nil {
		return err
	}
	client, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return fmt.Errorf("make client: %w", err)
	}
	if o.spaces {
		namespace = ""
	}
	printer := table.Printer{Out: c.out, Wide: o.output == "wide", Namespaces: o.spaces}
	show := func() error {
		t, err := readTable(ctx, client, namespace, name)
		if err != nil {
			return err
		}
		return printer.PrintRows(t)
	}
	if !o.watch {
		if err := show(); err != nil {
			return c.notFound(ctx, namespace, name, err)
		}
		if printer.Empty() {
			fmt.Fprintln(c.errors, nothingIn(namespace))
		}
		return nil
	}
	reader, err := view.NewReader(config)
	if err != nil {
		return err
	}
	return reader.FollowNamespace(ctx, namespace, show)
}

func nothingIn(namespace string) string {
	if namespace == "" {
		return "No Rollouts found."
	}
	return fmt.Sprintf("No Rollouts found in namespace %s; -A looks in all.", namespace)
}

func readTable(ctx context.Context, client discovery.DiscoveryInterface, namespace, name string) (*metav1.Table, error) {
	request := client.RESTClient().Get().AbsPath(rolloutsPath(namespace, name)).SetHeader("Accept", "application/json;as=Table;v=v1;g=meta.k8s.io,application/json")
	result := request.Do(ctx)
	if err := result.Error(); err != nil { // Raw would not return the message of the server
		return nil, err
	}
	body, err := result.Raw()
	if err != nil {
		return nil, err
	}
	t := &metav1.Table{}
	if err := json.Unmarshal(body, t); err != nil {
		return nil, fmt.Errorf("read table of Rollouts: %w", err)
	}
	return t, nil
}

func rolloutsPath(namespace, name string) string {
	p := "/apis/" + api.GroupVersion().String()
	if namespace != "" {
		p += "/namespaces/" + namespace
	}
	p += "/rollouts"
	if name != "" {
		p += "/" + name
	}
	return p
}

// getObjects shows objects without managed fields, as kubectl does.
func (c *cli) getObjects(ctx context.Context, name string, o getOptions) error {
	config, namespace, err := c.clusterConfig()
	if err != nil {
		return err
	}
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("make client: %w", err)
	}
	if o.spaces {
		namespace = ""
	}
	resource := client.Resource(api.RolloutResource()).Namespace(namespace)
	if name != "" {
		obj, err := resource.Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return c.notFound(ctx, namespace, name, err)
		}
		obj.SetManagedFields(nil)
		return c.printValues(o.output, obj.Object, obj)
	}
	list, err := resource.List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	var objects []*unstructured.Unstructured
	for i := range list.Items {
		list.Items[i].SetManagedFields(nil)
		objects = append(objects, &list.Items[i])
	}
	return c.printValues(o.output, listOf(objects), objects...)
}

// listOf returns a list as kubectl prints it.
func listOf(objects []*unstructured.Unstructured) map[string]any {
	items := []any{}
	for _, o := range objects {
		items = append(items, o.Object)
	}
	return map[string]any{"apiVersion": "v1", "kind": "List", "metadata": map[string]any{"resourceVersion": ""}, "items": items}
}

// printValues writes a value as json or yaml, or the names of the objects in it.
func (c *cli) printValues(output string, value any, objects ...*unstructured.Unstructured) error {
	switch output {
	case "name":
		for _, o := range objects {
			fmt.Fprintf(c.out, "%s.%s/%s\n", strings.ToLower(o.GetKind()), api.Group, o.GetName())
		}
		return nil
	case "json":
		encoder := json.NewEncoder(c.out)
		encoder.SetIndent("", "    ")
		return encoder.Encode(value)
	}
	text, err := yaml.Marshal(value)
	if err != nil {
		return fmt.Errorf("write yaml: %w", err)
	}
	_, err = c.out.Write(text)
	return err
}
