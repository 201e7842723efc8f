package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"time"

	appsv1alpha1 "github.com/openkruise/kruise/apis/apps/v1alpha1"
	appsv1beta1 "github.com/openkruise/kruise/apis/apps/v1beta1"
	"github.com/openkruise/kruise/pkg/client"
	"github.com/openkruise/kruise/pkg/controller/cloneset"
	"github.com/openkruise/kruise/pkg/controller/daemonset"
	"github.com/openkruise/kruise/pkg/controller/statefulset"
	"github.com/openkruise/kruise/pkg/features"
	utilclient "github.com/openkruise/kruise/pkg/util/client"
	utilfeature "github.com/openkruise/kruise/pkg/util/feature"
	"github.com/openkruise/kruise/pkg/util/fieldindex"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	ctrl "sigs.k8s.io/controller-runtime"
	sigsclient "sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

// module is the source of the controllers.
const module = "github.com/openkruise/kruise"

// run serves until ctx ends, and returns nil then.
func run(ctx context.Context, opts options, stdout io.Writer) error {
	began := time.Now()
	if err := setLog(opts.verbose); err != nil {
		return err
	}
	config, err := clientcmd.BuildConfigFromFlags("", opts.kubeconfig)
	if err != nil {
		return fmt.Errorf("read the kubeconfig: %w", err)
	}
	config.UserAgent, config.QPS, config.Burst = "kruise-manager", 1000, 2000
	if err := setFeatures(); err != nil {
		return err
	}
	if err := client.NewRegistry(config); err != nil {
		return fmt.Errorf("make clients: %w", err)
	}
	webhooks, err := newAdmission()
	if err != nil {
		return err
	}
	m, err := newManager(config)
	if err != nil {
		return err
	}
	if err := webhooks.register(m); err != nil {
		return err
	}
	err = m.Add(manager.RunnableFunc(func(ctx context.Context) error {
		if !m.GetCache().WaitForCacheSync(ctx) {
			return nil // stopped while starting
		}
		if err := webhooks.install(ctx, m.GetClient()); err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return err
		}
		line := announcement{PID: os.Getpid(), StartedIn: time.Since(began).Round(time.Millisecond).String(), Version: version()}
		if err := json.NewEncoder(stdout).Encode(line); err != nil {
			return fmt.Errorf("print that the controllers run: %w", err)
		}
		return nil
	}))
	if err != nil {
		return fmt.Errorf("add the announcement: %w", err)
	}
	if err := m.Start(ctx); err != nil {
		return fmt.Errorf("run the controllers: %w", err)
	}
	return nil
}

// newManager returns a manager of the three controllers that does not run yet.
func newManager(config *rest.Config) (manager.Manager, error) {
	scheme := clientgoscheme.Scheme // the module looks up its own kinds there
	for _, add := range []func(*runtime.Scheme) error{appsv1alpha1.AddToScheme, appsv1beta1.AddToScheme} {
		if err := add(scheme); err != nil {
			return nil, fmt.Errorf("make the scheme: %w", err)
		}
	}
	m, err := ctrl.NewManager(config, ctrl.Options{
		Scheme: scheme, NewCache: utilclient.NewCache,
		Metrics: metricsserver.Options{BindAddress: "0"}, HealthProbeBindAddress: "0",
	})
	if err != nil {
		return nil, fmt.Errorf("make the manager: %w", err)
	}
	// The three controllers use these indexes of the module; the others require definitions that are not served here.
	for _, kind := range []sigsclient.Object{&corev1.Pod{}, &corev1.PersistentVolumeClaim{}} {
		if err := m.GetFieldIndexer().IndexField(context.Background(), kind, fieldindex.IndexNameForOwnerRefUID, owners); err != nil {
			return nil, fmt.Errorf("index objects by owner: %w", err)
		}
	}
	for name, add := range map[string]func(manager.Manager) error{
		"CloneSet": cloneset.Add, "Advanced StatefulSet": statefulset.Add, "Advanced DaemonSet": daemonset.Add,
	} {
		if err := add(m); err != nil {
			return nil, fmt.Errorf("add the controller of %s: %w", name, err)
		}
	}
	return m, nil
}

func owners(object sigsclient.Object) []string {
	var uids []string
	for _, reference := range object.GetOwnerReferences() {
		uids = append(uids, string(reference.UID))
	}
	return uids
}

// setFeatures disables features that need OpenKruise's daemon on the nodes or its webhook of pods, as its own flags do.
func setFeatures() error {
	for _, feature := range []string{string(features.KruiseDaemon), string(features.PodWebhook)} {
		if err := utilfeature.DefaultMutableFeatureGate.Set(feature + "=false"); err != nil {
			return fmt.Errorf("turn off %s: %w", feature, err)
		}
	}
	features.SetDefaultFeatureGates()
	return nil
}

func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return ""
	}
	for _, dependency := range info.Deps {
		if dependency.Path == module {
			return dependency.Version
		}
	}
	return ""
}
