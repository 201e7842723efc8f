//go:build linux

package live

import (
	"fmt"
	"net"
	"os/exec"
	"syscall"
	"testing"

	"sluice.dev/sluice/test/ports"
	"sluice.dev/sluice/test/world"
)

// itself has the objects that ingress-nginx reads about its own pod, and its configuration. It leaves out settings that
// Debian's nginx lacks.
const itself = `
apiVersion: v1
kind: Pod
metadata: {name: edge}
spec: {containers: [{name: edge, image: edge}]}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: edge}
data: {use-http2: "false", worker-processes: "2", bind-address: 127.0.0.1}
`

// asInImage runs a program with the files of Debian's nginx at the paths of the image of ingress-nginx. The other files
// in /etc are for look-ups of names and users. $1 is bin/nginx.
const asInImage = `
root=$1
shift
etc=$PWD/etc
mkdir -p "$etc" /tmp/nginx
mount -t tmpfs tmpfs "$etc"
for name in passwd group hosts nsswitch.conf resolv.conf ld.so.cache; do
	[ ! -e "/etc/$name" ] || cp -R "/etc/$name" "$etc"
done
mkdir "$etc/ingress-controller" "$etc/ingress-controller/telemetry"
cp -R "$root/etc/nginx" "$etc/nginx"
mount --bind "$etc" /etc
for directory in /tmp/nginx /var/lib /var/log; do
	mount -t tmpfs tmpfs "$directory"
	mkdir "$directory/nginx"
done
exec "$@"
`

// ingressNginx starts ingress-nginx.
func ingressNginx(t *testing.T, w *world.World, ns string) (string, string) {
	t.Helper()
	w.Apply(t, ns, itself)
	root, address := binary("nginx"), ports.Address(t)
	args := []string{
		"-euc", asInImage, "sh", root, binary("sluice-ingress-nginx"), "--kubeconfig", w.Kubeconfig, "--configmap", ns + "/edge", "--watch-namespace", ns,
		"--healthz-host=127.0.0.1", "--enable-metrics=false", "--update-status=false", "--http-port", portOf(t, address),
	}
	for _, other := range []string{"https-port", "stream-port", "healthz-port", "status-port", "profiler-port", "default-server-port"} {
		args = append(args, "--"+other, portOf(t, ports.Address(t)))
	}
	cmd := exec.Command("/bin/sh", args...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS}
	libraries := fmt.Sprintf("%[1]s/usr/lib/x86_64-linux-gnu:%[1]s/lib/x86_64-linux-gnu", root)
	begin(t, cmd, "POD_NAME=edge", "POD_NAMESPACE="+ns, "NGINX_BINARY="+root+"/usr/sbin/nginx", "LD_LIBRARY_PATH="+libraries, "LUA_CPATH=/etc/nginx/lua/?.so;;")
	return "http://" + address + "/", outside(ns)
}

func portOf(t *testing.T, address string) string {
	t.Helper()
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		t.Fatal(err)
	}
	return port
}
