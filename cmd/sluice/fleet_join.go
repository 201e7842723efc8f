package main

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/nats-io/nkeys"
	"github.com/spf13/cobra"
	"golang.org/x/crypto/bcrypt"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"

	"sluice.dev/sluice/cmd/internal/component"
	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/preflight"
)

// Names of the objects that hold the keys of a fleet in the namespace of Sluice.
const (
	hubObjects    = "sluice-fleet-hub"
	memberObjects = "sluice-fleet-member"
	publicKeysKey = "public-keys"
	// publicKeysSetting is the setting of the hub that fleet join reads. Executors ignore it.
	publicKeysSetting = "SLUICE_FLEET_HUB_PUBLIC_KEYS"
)

// Directories in the container of an executor.
const (
	hubKeyDir = "/etc/sluice/fleet-hub"
	memberDir = "/etc/sluice/fleet-member"
)

// passwordCost is the cost of bcrypt that nats server passwd uses.
const passwordCost = 11

type joinOptions struct {
	url, caFile, dir, output string
	// namespace has Sluice in the cluster that joins, and hub is the installation of the hub, as far as it is known.
	namespace string
	hub       api.Installation
	labels    map[string]string
	hubKeys   []string
}

func (c *cli) fleetJoinCommand() *cobra.Command {
	var o joinOptions
	join := &cobra.Command{
		Use: "join NAME --hub-nats-url URL", Short: "Print the objects that add a cluster to the fleet, for the hub and for the cluster",
		Long: "Print the objects that add a cluster to the fleet, with a new key and a new password. The command creates nothing. The first part is for the\n" +
			"hub: the FleetMember, and as a comment the account for the hub's NATS. The second part is for the cluster: a Secret with its private\n" +
			"key and password, and a ConfigMap with settings. The installed executors read both when they start, also after an upgrade. With --dir, each\n" +
			"part and the account go to their own files.\n\n" +
			"The public keys of the hub come from the ConfigMap " + hubObjects + " of the hub, which " + c.command + " fleet hub-key prints, or from\n" +
			"--hub-public-key. Then the command needs no cluster.",
		Example: fmt.Sprintf("  %[1]s fleet join eu1-prod-03 --hub-nats-url tls://nats.hub.example.com:4222 --labels env=prod,region=eu-west --dir . --context hub\n"+
			"  kubectl apply -f eu1-prod-03-hub.yaml --context hub\n"+
			"  %[2]s -f eu1-prod-03-member.yaml --context eu1-prod-03\n  %[3]s --context eu1-prod-03", c.command, applyObjects, restartExecutors(api.DefaultNamespace)),
		Args: cobra.ExactArgs(1), ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, args []string) error { return c.joinFleet(cmd.Context(), args[0], o) },
	}
	flags := join.Flags()
	flags.StringVar(&o.url, "hub-nats-url", "", "NATS servers of the hub as the cluster reaches them, separated by commas")
	flags.StringToStringVar(&o.labels, "labels", nil, "labels of the FleetMember, as KEY=VALUE, separated by commas; plans select clusters by them")
	flags.StringArrayVar(&o.hubKeys, "hub-public-key", nil, "a public key of the hub, which begins with U; may be given several times (default: read from the hub)")
	flags.StringVar(&o.caFile, "hub-nats-ca", "", "file with the certificates that sign the certificates of the hub's NATS servers (default: the system's)")
	installNamespaceFlag(join, &o.namespace, "namespace of Sluice in the cluster that joins")
	flags.StringVar(&o.dir, "dir", "", "write NAME-account.conf, NAME-hub.yaml and NAME-member.yaml into this directory, instead of all to the standard output")
	outputFlag(join, &o.output, "", "yaml")
	_ = join.MarkFlagDirname("dir")
	return join
}

func (c *cli) joinFleet(ctx context.Context, name string, o joinOptions) error {
	if err := o.check(name); err != nil {
		return err
	}
	o.hub = api.DefaultInstallation()
	if len(o.hubKeys) == 0 {
		var err error
		if o.hub, o.hubKeys, err = c.readHubKeys(ctx, name); err != nil {
			return err
		}
	}
	j, err := o.join(name)
	if err != nil {
		return err
	}
	if o.dir == "" {
		_, err := fmt.Fprintf(c.out, "%s%s", j.hub, j.member)
		return err
	}
	if err := os.MkdirAll(o.dir, 0o700); err != nil {
		return err
	}
	account, hub, member := filepath.Join(o.dir, name+"-account.conf"), filepath.Join(o.dir, name+"-hub.yaml"), filepath.Join(o.dir, name+"-member.yaml")
	if err := writeNewFiles([]newFile{{account, j.account}, {hub, j.hub}, {member, j.member}}); err != nil {
		return err
	}
	fmt.Fprintf(c.out, "# First append %[1]s to fleet.conf of the hub's NATS; %[2]s says how.\n"+
		"kubectl apply -f %[2]s --context %[3]s\n%[4]s -f %[5]s --context %[6]s\n%[7]s --context %[6]s\n",
		account, hub, cmp.Or(c.kube.Context, "HUB"), applyObjects, member, name, restartExecutors(o.namespace))
	fmt.Fprintf(c.errors, "%s has the private key of the cluster: delete it when it is applied.\n", member)
	return nil
}

// check returns an error for a name or for flags that cannot be.
func (o *joinOptions) check(name string) error {
	if problems := validation.IsDNS1123Label(name); len(problems) > 0 {
		return fmt.Errorf("%q is no name for a cluster: %s", name, strings.Join(problems, "; "))
	}
	if slices.Contains([]string{"watcher", "executor", "analyzer", "admin", "route", "system"}, name) {
		return fmt.Errorf("%q is the name of a user of the hub's NATS already; give the cluster another name", name)
	}
	if o.url == "" {
		return errors.New("name the NATS servers of the hub, as the cluster reaches them: --hub-nats-url tls://HOST:4222")
	}
	for server := range strings.SplitSeq(o.url, ",") {
		if u, err := url.Parse(server); err != nil || u.Host == "" || u.User != nil {
			return fmt.Errorf("--hub-nats-url %q: write tls://HOST:PORT or nats://HOST:PORT, without a user", server)
		}
	}
	for key, value := range o.labels {
		if problems := slices.Concat(validation.IsQualifiedName(key), validation.IsValidLabelValue(value)); len(problems) > 0 {
			return fmt.Errorf("--labels %s=%s: %s", key, value, strings.Join(problems, "; "))
		}
	}
	for _, key := range o.hubKeys {
		if !nkeys.IsValidPublicUserKey(key) {
			return fmt.Errorf("--hub-public-key %.60q: a public key of the hub begins with U and has 56 characters", key)
		}
	}
	return checkOutput(o.output, "yaml")
}

// readHubKeys returns the installation of the hub, and its public keys. It refuses a name that the fleet has already.
func (c *cli) readHubKeys(ctx context.Context, name string) (in api.Installation, keys []string, err error) {
	h, err := c.newHub()
	if err != nil {
		return in, nil, err
	}
	if in, err = preflight.FindInstallation(ctx, h.config); err != nil {
		return in, nil, err
	}
	_, err = h.objects.Resource(api.FleetMemberResource()).Get(ctx, name, metav1.GetOptions{})
	switch {
	case err == nil:
		return in, nil, fmt.Errorf("the fleet has a FleetMember %s already. To change its key, write the new public key into spec.nextKey", name)
	case api.Unserved(err), !apierrors.IsNotFound(err):
		return in, nil, c.fleetProblem(ctx, h, "", err)
	}
	configMaps := schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}
	object, err := h.objects.Resource(configMaps).Namespace(in.Namespace).Get(ctx, hubObjects, metav1.GetOptions{})
	if err != nil {
		return in, nil, fmt.Errorf("read the public keys of the hub from the ConfigMap %s/%s: %w. Give them with --hub-public-key, or make them with: %s fleet hub-key", in.Namespace, hubObjects, err, c.command)
	}
	text, _, _ := unstructured.NestedString(object.Object, "data", publicKeysSetting)
	keys = strings.Fields(text)
	if len(keys) == 0 || slices.ContainsFunc(keys, func(key string) bool { return !nkeys.IsValidPublicUserKey(key) }) {
		return in, nil, fmt.Errorf("the ConfigMap %s/%s has no public keys in %s, with spaces between them; give them with --hub-public-key", in.Namespace, hubObjects, publicKeysSetting)
	}
	return in, keys, nil
}

// joining has what the two sides need when a cluster joins: the account for the hub's NATS, and the objects for the hub and for the cluster.
type joining struct{ account, hub, member []byte }

func (o *joinOptions) join(name string) (joining, error) {
	seed, public, err := newNKey()
	if err != nil {
		return joining{}, err
	}
	password := rand.Text()
	hash, err := bcrypt.GenerateFromPassword([]byte(password), passwordCost)
	if err != nil {
		return joining{}, fmt.Errorf("hash password: %w", err)
	}
	metadata := map[string]any{"name": name}
	if len(o.labels) > 0 {
		metadata["labels"] = o.labels
	}
	account := natsAccount(name, `"`+string(hash)+`"`)
	where, below := "in "+name+"-account.conf", ""
	if o.dir == "" {
		where, below = "below, without the #", "#\n"+commented(account)
	}
	comment := fmt.Sprintf("# For the hub: kubectl apply -f FILE\n#\n"+
		"# Its NATS needs the account %s. Append it to fleet.conf: for the single server in the ConfigMap\n"+
		"# sluice-nats-fleet, and then kubectl rollout restart statefulset/sluice-nats -n %s; for servers of your own in their\n"+
		"# file, and then nats-server --signal reload on each.\n%s", where, o.hub.Namespace, below)
	hub, err := document(comment,
		map[string]any{"apiVersion": api.FleetGroupVersion().String(), "kind": api.KindFleetMember, "metadata": metadata, "spec": map[string]any{"key": public}})
	if err != nil {
		return joining{}, err
	}
	files := map[string]any{"member.nk": seed + "\n", publicKeysKey: strings.Join(o.hubKeys, "\n") + "\n", "password": password + "\n"}
	settings := map[string]string{
		"fleet-member": name, "fleet-member-key-file": memberDir + "/member.nk", "fleet-hub-public-keys-file": memberDir + "/" + publicKeysKey,
		"fleet-nats-url": o.url, "fleet-nats-password-file": memberDir + "/password",
	}
	if o.caFile != "" {
		ca, err := os.ReadFile(o.caFile)
		if err != nil {
			return joining{}, fmt.Errorf("--hub-nats-ca: %w", err)
		}
		files["ca.crt"] = string(ca)
		settings["fleet-nats-ca"] = memberDir + "/ca.crt"
	}
	variables := map[string]string{}
	for flag, value := range settings {
		variables[component.Variable(flag)] = value
	}
	member, err := document(fmt.Sprintf("# For the cluster %s, in which Sluice is installed:\n# %s -f FILE && %s\n#\n"+
		"# The Secret has the private key of the cluster: do not apply it at the hub, and keep it in no repository.\n",
		name, applyObjects, restartExecutors(o.namespace)), secret(o.namespace, memberObjects, files), configMap(o.namespace, memberObjects, variables))
	return joining{[]byte(account), hub, member}, err
}

type newFile struct {
	name string
	text []byte
}

// writeNewFiles writes files for their owner only, and replaces none. It writes all or none: the files of two calls do not fit together.
func writeNewFiles(files []newFile) error {
	for i, f := range files {
		if err := f.write(); err != nil {
			for _, written := range files[:i] {
				err = errors.Join(err, os.Remove(written.name))
			}
			return err
		}
	}
	return nil
}

func (f newFile) write() error {
	file, err := os.OpenFile(f.name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = file.Write(f.text)
	return errors.Join(err, file.Close())
}
