//go:build linux

package live

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	listers "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"

	"sluice.dev/sluice/test/controlplane"
	"sluice.dev/sluice/test/world"
)

const (
	// port is the port of the containers.
	port = "8080"
	// preStop is the time for which a container goes on while its pod is being deleted, like a lifecycle hook with a
	// sleep. Without it, no gateway can learn in time that a pod is gone.
	preStop = 5 * time.Second
	// version and podName are headers of an answer. counted is a header of a request: the pod counts requests by its
	// value. told is a header that routes add.
	version, podName, counted, told = "X-Version", "X-Pod", "X-Counted", "X-Told"
	// settle is the time without new requests after which all have arrived.
	settle = 300 * time.Millisecond
)

// kubelet runs the containers of the pods of a namespace. Each is a server at its pod's own address, which answers with
// the version of its pod. A pod is ready exactly when its server listens. It is gone when its server has ended, and not
// before.
type kubelet struct {
	testing.TB
	ended   <-chan struct{}
	kube    kubernetes.Interface
	mu      sync.Mutex
	servers map[types.UID]*http.Server // nil for a server that is ending
	arrived map[string]int             // by the value of counted with the version, and by the value of told
	tls     *tls.Config                // nil if containers do not terminate TLS
	running sync.WaitGroup
}

// runPods runs the containers of a namespace until the test has ended.
func runPods(t testing.TB, w *world.World, ns string, overTLS bool) *kubelet {
	t.Helper()
	kube, err := kubernetes.NewForConfig(w.Config)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	k := &kubelet{TB: t, ended: ctx.Done(), kube: kube, servers: map[types.UID]*http.Server{}, arrived: map[string]int{}}
	if overTLS {
		k.tls = &tls.Config{Certificates: []tls.Certificate{certificate()}}
	}
	factory := informers.NewSharedInformerFactoryWithOptions(kube, 0, informers.WithNamespace(ns))
	_, err = factory.Core().V1().Pods().Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(o any) { k.see(o.(*corev1.Pod)) },
		UpdateFunc: func(_, o any) { k.see(o.(*corev1.Pod)) },
	})
	if err != nil {
		cancel()
		t.Fatal(err)
	}
	factory.Start(ctx.Done())
	t.Cleanup(func() {
		cancel()
		factory.Shutdown()
		k.evict(factory.Core().V1().Pods().Lister().Pods(ns))
		k.running.Wait()
	})
	return k
}

// settled returns the number of requests with a value of counted that have arrived at a version, once no more come.
func (k *kubelet) settled(value, version string) int {
	for n := k.requests(value + version); ; {
		time.Sleep(settle)
		now := k.requests(value + version)
		if now == n {
			return n
		}
		n = now
	}
}

func (k *kubelet) count(what string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.arrived[what]++
}

// requests returns the number of requests so far that were counted under a key.
func (k *kubelet) requests(what string) int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.arrived[what]
}

// evict ends all remaining servers, so that the namespace can be deleted.
func (k *kubelet) evict(pods listers.PodNamespaceLister) {
	left, err := pods.List(labels.Everything())
	if err != nil {
		k.Error(err)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, pod := range left {
		if server := k.servers[pod.UID]; server != nil {
			k.running.Go(func() { k.stop(pod, server) })
		}
	}
}

// see starts the container of a pod that has an address and no container, and stops the container of a pod that is
// being deleted.
func (k *kubelet) see(pod *corev1.Pod) {
	k.mu.Lock()
	defer k.mu.Unlock()
	server, known := k.servers[pod.UID]
	switch {
	case pod.DeletionTimestamp != nil && server != nil:
		k.servers[pod.UID] = nil
		k.running.Go(func() { k.stop(pod, server) })
	case pod.DeletionTimestamp != nil && !known:
		k.servers[pod.UID] = nil
		k.running.Go(func() { k.patch(pod, `{"metadata":{"finalizers":null}}`) })
	case pod.DeletionTimestamp == nil && pod.Status.PodIP != "" && !known:
		k.servers[pod.UID] = k.run(pod)
	}
}

func (k *kubelet) run(pod *corev1.Pod) *http.Server {
	server := &http.Server{Handler: k.container(pod), Protocols: new(http.Protocols)}
	server.Protocols.SetHTTP1(true)
	server.Protocols.SetUnencryptedHTTP2(true)
	listener, err := net.Listen("tcp", net.JoinHostPort(pod.Status.PodIP, port))
	if err != nil {
		k.Errorf("run pod %s: %v", pod.Name, err)
		return server
	}
	if k.tls != nil {
		listener = tls.NewListener(listener, k.tls)
	}
	k.running.Go(func() {
		if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			k.Errorf("pod %s: %v", pod.Name, err)
		}
	})
	// The kubelet's first readiness probe that is not refused.
	k.running.Go(func() { k.patch(pod, fmt.Sprintf(`{"metadata":{"annotations":{%q:null}}}`, controlplane.NeverReady)) })
	return server
}

// stop ends a server like a container: the server goes on for a while, then finishes its open requests.
func (k *kubelet) stop(pod *corev1.Pod, server *http.Server) {
	select {
	case <-k.ended:
	case <-time.After(preStop):
	}
	ctx, cancel := context.WithTimeout(context.Background(), preStop)
	defer cancel()
	if err := server.Shutdown(ctx); err != nil {
		_ = server.Close() // cuts off requests that did not end in time
	}
	k.patch(pod, `{"metadata":{"finalizers":null}}`)
}

// patch writes to a pod. It ignores a pod that is gone.
func (k *kubelet) patch(pod *corev1.Pod, body string) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	_, err := k.kube.CoreV1().Pods(pod.Namespace).Patch(ctx, pod.Name, types.MergePatchType, []byte(body), metav1.PatchOptions{FieldManager: "kubelet"})
	if err != nil && !apierrors.IsNotFound(err) {
		k.Errorf("answer for pod %s: %v", pod.Name, err)
	}
}

// container answers with its version, by HTTP and by gRPC.
func (k *kubelet) container(pod *corev1.Pod) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		k.count(r.Header.Get(counted) + pod.Spec.Containers[0].Image)
		if value := r.Header.Get(told); value != "" {
			k.count(value)
		}
		w.Header().Set(version, pod.Spec.Containers[0].Image)
		w.Header().Set(podName, pod.Name)
		if !strings.HasPrefix(r.Header.Get("Content-Type"), "application/grpc") {
			return
		}
		// An empty message, as gRPC frames it.
		w.Header().Set("Content-Type", "application/grpc")
		w.Header().Set("Trailer", "Grpc-Status")
		_, _ = w.Write(make([]byte, 5)) // the client sees the connection break
		w.Header().Set("Grpc-Status", "0")
	})
}

// secured is a closed server with a certificate for example.com and its subdomains.
var secured = sync.OnceValue(func() *httptest.Server {
	s := httptest.NewTLSServer(nil)
	s.Close()
	return s
})

func certificate() tls.Certificate { return secured().TLS.Certificates[0] }

// authority returns the authority that signed this certificate.
func authority() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(secured().Certificate())
	return pool
}
