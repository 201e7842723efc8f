package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"

	"go.etcd.io/etcd/server/v3/embed"
	extensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	extensions "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// errPortTaken means that another program took the port after it was chosen and before the API server started.
var errPortTaken = errors.New("the port was taken meanwhile")

// cluster is a running control plane.
type cluster struct {
	opts       options
	authority  *authority
	server     string
	kubeconfig string
	config     *rest.Config
	etcd       *embed.Etcd
	children   []*child
	// failed receives the error when a part of the cluster ends by itself.
	failed   chan error
	restarts int
}

// start returns a cluster whose API server is ready and whose other components have begun. The caller must stop the returned cluster unless it is nil, also
// after an error.
func start(ctx context.Context, opts options) (*cluster, error) {
	a, err := newAuthority(opts.dir)
	if err != nil {
		return nil, err
	}
	c := &cluster{opts: opts, authority: a, failed: make(chan error, 8+maxRestarts)}
	etcd, etcdURL, err := startEtcd(ctx, opts.dir)
	if err != nil {
		return nil, err
	}
	c.etcd = etcd
	go func() {
		if err, open := <-etcd.Err(); open {
			c.failed <- fmt.Errorf("etcd ended by itself: %w", err)
		}
	}()
	const attempts = 5
	for range attempts {
		err = c.startComponents(ctx, etcdURL)
		if !errors.Is(err, errPortTaken) {
			break
		}
		c.stopChildren()
	}
	return c, err
}

// startComponents starts all processes in parallel, so that they load while the API server starts. It releases the others when the API server is ready.
func (c *cluster) startComponents(ctx context.Context, etcdURL string) error {
	port, err := freePort()
	if err != nil {
		return err
	}
	plan, err := c.plan(port, etcdURL)
	if err != nil {
		return err
	}
	for _, p := range plan {
		child, err := startChild(c.opts.dir, p.program, p.name, p.flags)
		if err != nil {
			return err
		}
		c.children = append(c.children, child)
	}
	server := c.children[0]
	if err := server.release(); err != nil {
		return err
	}
	client, err := kubernetes.NewForConfig(c.config)
	if err != nil {
		return fmt.Errorf("make a client: %w", err)
	}
	if err := watching(ctx, server, func(ctx context.Context) error { return awaitAPIServer(ctx, client) }); err != nil {
		if bytes.Contains(tail(server.logPath, 1<<20), []byte("address already in use")) {
			return errPortTaken
		}
		return err
	}
	for _, child := range c.children[1:] {
		if err := child.release(); err != nil {
			return err
		}
	}
	for _, child := range c.children {
		c.tellEnd(child)
	}
	return nil
}

// tellEnd sends an error to c.failed when a child ends.
func (c *cluster) tellEnd(child *child) {
	go func() {
		<-child.ended
		c.failed <- endedChild{child}
	}()
}

// maxRestarts bounds the restarts of components while the cluster starts.
const maxRestarts = 3

// startAgain restarts a controller, the scheduler or kwok if it has ended while the cluster starts, as a kubelet would. A controller ends when a busy API
// server does not answer one of its first requests. startAgain returns failed if another part has ended, or a component has ended too often.
func (c *cluster) startAgain(failed error) error {
	var ended endedChild
	if !errors.As(failed, &ended) {
		return failed
	}
	at := slices.Index(c.children, ended.child)
	if at <= 0 || c.restarts == maxRestarts {
		return failed
	}
	c.restarts++
	fmt.Fprintf(os.Stderr, "sluice-cluster: %s ended while the cluster started (%v), and is started again\n", ended.name, ended.err)
	next, err := startChild(c.opts.dir, ended.program, ended.name, ended.args)
	if err != nil {
		return err
	}
	c.children[at] = next
	c.tellEnd(next)
	return next.release()
}

type planned struct {
	name  string
	flags []string
	// program is the path of another program; empty means this one.
	program string
}

// plan writes the kubeconfigs and returns the processes to run, the API server first.
func (c *cluster) plan(port int, etcdURL string) ([]planned, error) {
	c.server = fmt.Sprintf("https://127.0.0.1:%d", port)
	const masters = "system:masters"
	paths := map[string]string{}
	for _, who := range []struct{ file, user, group string }{
		{"kubeconfig", "admin", masters},
		{"up.kubeconfig", "system:sluice-cluster", masters},
		{"kwok.kubeconfig", "system:kwok", masters},
		{"kube-controller-manager.kubeconfig", "system:kube-controller-manager", ""},
		{"kube-scheduler.kubeconfig", "system:kube-scheduler", ""},
	} {
		path, err := c.authority.kubeconfig(who.file, c.server, who.user, who.group)
		if err != nil {
			return nil, err
		}
		paths[who.file] = path
	}
	c.kubeconfig = paths["kubeconfig"]
	var err error
	if c.config, err = clientcmd.BuildConfigFromFlags("", paths["up.kubeconfig"]); err != nil {
		return nil, fmt.Errorf("read the own kubeconfig: %w", err)
	}
	c.config.QPS = -1
	serverFlags, err := apiServerFlags(c.authority, c.opts, port, etcdURL)
	if err != nil {
		return nil, err
	}
	playFlags, err := kwokFlags(c.authority, paths["kwok.kubeconfig"])
	if err != nil {
		return nil, err
	}
	return []planned{
		{kubeAPIServer, serverFlags, c.opts.kubernetes},
		{kubeControllerManager, controllerManagerFlags(c.authority, c.opts, paths["kube-controller-manager.kubeconfig"]), c.opts.kubernetes},
		{kubeScheduler, schedulerFlags(c.opts, paths["kube-scheduler.kubeconfig"]), c.opts.kubernetes},
		{kwok, playFlags, ""},
	}, nil
}

// populate returns when nodes, service accounts and the given definitions are usable.
func (c *cluster) populate(ctx context.Context, crds []*extensionsv1.CustomResourceDefinition) error {
	client, err := kubernetes.NewForConfig(c.config)
	if err != nil {
		return fmt.Errorf("make a client: %w", err)
	}
	definitions, err := extensions.NewForConfig(c.config)
	if err != nil {
		return fmt.Errorf("make a client: %w", err)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	done := make(chan error, 1)
	go func() {
		err := createNodes(ctx, client, c.opts)
		if err == nil {
			err = installCRDs(ctx, definitions, crds)
		}
		if err == nil {
			err = awaitNodes(ctx, client, c.opts)
		}
		if err == nil {
			err = awaitServiceAccount(ctx, client)
		}
		done <- err
	}()
	for {
		select {
		case err := <-done:
			return err
		case failed := <-c.failed:
			if err := c.startAgain(failed); err != nil {
				cancel(err)
				<-done
				return err
			}
		}
	}
}

// watching runs do, and cancels it with the error of the child if the child ends first.
func watching(ctx context.Context, child *child, do func(context.Context) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	done := make(chan struct{})
	defer func() { cancel(nil); <-done }()
	go func() {
		defer close(done)
		select {
		case <-child.ended:
			cancel(endedChild{child})
		case <-ctx.Done():
		}
	}()
	return do(ctx)
}

func (c *cluster) stop() {
	c.stopChildren()
	if c.etcd != nil {
		c.etcd.Close()
		_ = os.RemoveAll(c.authority.path("etcd"))
	}
}

func (c *cluster) stopChildren() {
	for _, child := range c.children {
		child.stop()
	}
	c.children = nil
}

func freePort() (int, error) {
	listener, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		return 0, fmt.Errorf("find a free port: %w", err)
	}
	defer listener.Close()
	return listener.Addr().(*net.TCPAddr).Port, nil
}
