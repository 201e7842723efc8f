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
	// port is what containers listen at.
	port = "8080"
	// preStop is how long a container goes on when its pod is being deleted: what a lifecycle hook with a sleep is for, without which no
	// gateway can be told in time that a pod is gone.
	preStop = 5 * time.Second
	// version and podName are headers of an answer; counted is one of a request, by whose value it is counted where it arrives,
	// and told one that routes add.
	version, podName, counted, told = "X-Version", "X-Pod", "X-Counted", "X-Told"
	// settle is for how long no more requests arrive when all have.
	settle = 300 * time.Millisecond
)

// kubelet runs the containers of the pods of a namespace: a server at each pod's own address, which answers with the version of its pod. A
// pod is ready when its server listens, and not before; it is gone when its server has ended, and not before.
type kubelet struct {
	testing.TB
	ended   <-chan struct{}
	kube    kubernetes.Interface
	mu      sync.Mutex
	servers map[types.UID]*http.Server // nil of one that is ending
	arrived map[string]int             // by the value of counted and the version, and by that of told
	tls     *tls.Config                // nil when containers end no TLS
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

// settled is how many requests with a value of counted have arrived at a version, when no more do.
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

// requests are how many have arrived so far that were counted as something.
func (k *kubelet) requests(what string) int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.arrived[what]
}

// evict ends what runs, so that the namespace can be deleted.
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

// see starts the container of a pod that has an address and none yet, and stops that of one that is being deleted.
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
	// The first readiness probe that is not refused.
	k.running.Go(func() { k.patch(pod, fmt.Sprintf(`{"metadata":{"annotations":{%q:null}}}`, controlplane.NeverReady)) })
	return server
}

// stop ends a server as a container ends: it goes on for a while, then finishes what it has begun.
func (k *kubelet) stop(pod *corev1.Pod, server *http.Server) {
	select {
	case <-k.ended:
	case <-time.After(preStop):
	}
	ctx, cancel := context.WithTimeout(context.Background(), preStop)
	defer cancel()
	if err := server.Shutdown(ctx); err != nil {
		_ = server.Close() // what did not end in time is cut off
	}
	k.patch(pod, `{"metadata":{"finalizers":null}}`)
}

// patch writes to a pod. One that is gone needs no answer.
func (k *kubelet) patch(pod *corev1.Pod, body string) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	_, err := k.kube.CoreV1().Pods(pod.Namespace).Patch(ctx, pod.Name, types.MergePatchType, []byte(body), metav1.PatchOptions{FieldManager: "kubelet"})
	if err != nil && !apierrors.IsNotFound(err) {
		k.Errorf("answer for pod %s: %v", pod.Name, err)
	}
}

// container answers with what it runs, by HTTP and by gRPC.
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
		_, _ = w.Write(make([]byte, 5)) // the other end sees that it is cut off
		w.Header().Set("Grpc-Status", "0")
	})
}

// secured is a server that has ended, whose certificate is for example.com and what is below it.
var secured = sync.OnceValue(func() *httptest.Server {
	s := httptest.NewTLSServer(nil)
	s.Close()
	return s
})

func certificate() tls.Certificate { return secured().TLS.Certificates[0] }

// authority is who has signed it.
func authority() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(secured().Certificate())
	return pool
}
