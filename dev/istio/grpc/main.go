// Command sluice-grpc is a client of gRPC services that gets its routes from Istio's control plane. It forwards each incoming HTTP request as a call to the
// requested service, with the method of its path and with its headers. Its one invariant: gRPC's own xDS client selects the backend of a call, and this command
// repeats no failed call.
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"net"
	"net/http"
	"strings"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/xds"
	"google.golang.org/protobuf/types/known/emptypb"
)

const bootstrap = `{
	"xds_servers": [{"server_uri": %q, "channel_creds": [{"type": "insecure"}], "server_features": ["xds_v3"]}],
	"node": {"id": "sidecar~127.0.0.1~client.%[2]s~%[2]s.svc.cluster.local", "metadata": {"GENERATOR": "grpc", "NAMESPACE": %[2]q, "CLUSTER_ID": "Kubernetes"}}
}`

func main() {
	listen := flag.String("listen", "", "address that HTTP requests come to")
	istiod := flag.String("istiod", "", "address of the control plane")
	namespace := flag.String("namespace", "default", "where the client is")
	flag.Parse()
	listener, err := net.Listen("tcp", *listen)
	if err != nil {
		log.Fatal(err)
	}
	routes, err := xds.NewXDSResolverWithConfigForTesting(fmt.Appendf(nil, bootstrap, *istiod, *namespace))
	if err != nil {
		log.Fatal(err)
	}
	log.Fatal(http.Serve(listener, &client{routes: routes, services: map[string]*grpc.ClientConn{}}))
}

// client has a connection to each requested service.
type client struct {
	routes   resolver.Builder
	mu       sync.Mutex
	services map[string]*grpc.ClientConn
}

func (c *client) service(name string) (*grpc.ClientConn, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if conn := c.services[name]; conn != nil {
		return conn, nil
	}
	conn, err := grpc.NewClient("xds:///"+name, grpc.WithResolvers(c.routes), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err == nil {
		c.services[name] = conn
	}
	return conn, err
}

// ServeHTTP answers with the headers of the backend.
func (c *client) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	answer, err := c.call(r.Context(), r)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	for name, values := range answer {
		if strings.HasPrefix(name, "x-") { // skip headers of the protocol
			w.Header()[http.CanonicalHeaderKey(name)] = values
		}
	}
}

func (c *client) call(ctx context.Context, r *http.Request) (answer metadata.MD, err error) {
	conn, err := c.service(r.Host)
	if err != nil {
		return nil, err
	}
	headers := metadata.MD{}
	r.Header.Del("Connection") // it applies only to the connection of the request
	for name, values := range r.Header {
		headers.Append(name, values...)
	}
	return answer, conn.Invoke(metadata.NewOutgoingContext(ctx, headers), r.URL.Path, &emptypb.Empty{}, &emptypb.Empty{}, grpc.Header(&answer))
}
