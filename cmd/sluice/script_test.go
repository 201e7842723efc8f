package main

import (
	"context"
	"errors"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
	"k8s.io/client-go/tools/clientcmd"

	"sluice.dev/sluice/test/controlplane"
)

func TestMain(m *testing.M) {
	testscript.Main(abreast{m}, map[string]func(){"sluice": main, "kubectl-sluice": main})
}

// abreast runs 4 tests in parallel by default, because they mostly wait for their own control planes.
type abreast struct{ *testing.M }

func (m abreast) Run() int {
	flag.Parse()
	chosen := false
	flag.Visit(func(f *flag.Flag) { chosen = chosen || f.Name == "test.parallel" })
	if !chosen {
		if err := flag.Set("test.parallel", "4"); err != nil {
			panic(err)
		}
	}
	defer stopClusters()
	return m.M.Run()
}

func TestWithoutACluster(t *testing.T) {
	testscript.Run(t, testscript.Params{Dir: "testdata/offline", Setup: func(env *testscript.Env) error {
		passCoverage(env)
		return copyTree(filepath.Join("..", "..", "lua_configuration", "networking.istio.io", "VirtualService", "testdata"), filepath.Join(env.WorkDir, "cases"))
	}, Cmds: map[string]func(*testscript.TestScript, bool, []string){"exits": exits}})
}

// passCoverage lets commands of a script write coverage data, if it is measured.
func passCoverage(env *testscript.Env) { env.Setenv("GOCOVERDIR", os.Getenv("GOCOVERDIR")) }

// copyTree copies the cases, because the command writes into their directory.
func copyTree(from, to string) error { return os.CopyFS(to, os.DirFS(from)) }

func TestWithACluster(t *testing.T) {
	t.Parallel()
	cluster := controlplane.ForTest(t, controlplane.Options{})
	testscript.Run(t, scripts(cluster, "testdata/cluster"))
}

// TestCommands runs scripts, each in its own namespace.
func TestCommands(t *testing.T) {
	t.Parallel()
	testscript.Run(t, scripts(sharedCluster(t), "testdata/commands"))
}

func crdDirectory() (string, error) { return filepath.Abs(filepath.Join("..", "..", "deploy", "crds")) }

func scripts(cluster *controlplane.Cluster, dir string) testscript.Params {
	return testscript.Params{
		Dir: dir,
		Setup: func(env *testscript.Env) error {
			passCoverage(env)
			env.Setenv("KUBECONFIG", cluster.Kubeconfig)
			env.Setenv("SLUICE_COMPLETION_TIMEOUT", "10m")
			env.Setenv("NOBODY", filepath.Join(env.WorkDir, "nobody.kubeconfig"))
			if err := asNobody(cluster.Kubeconfig, env.Getenv("NOBODY")); err != nil {
				return err
			}
			crds, err := crdDirectory()
			env.Setenv("CRDS", crds)
			return err
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"kubectl": func(ts *testscript.TestScript, neg bool, args []string) {
				out, err := cluster.Kubectl(context.Background(), inside(ts, args)...)
				if (err == nil) == neg {
					ts.Fatalf("kubectl %v: %v\n%s", args, err, out)
				}
			},
			"exits": exits,
		},
	}
}

// exits runs sluice and compares its exit code with the first argument.
func exits(ts *testscript.TestScript, neg bool, args []string) {
	want, err := strconv.Atoi(args[0])
	if err != nil || neg {
		ts.Fatalf("usage: exits CODE ARGUMENTS")
	}
	var failed *exec.ExitError
	err, got := ts.Exec("sluice", args[1:]...), 0
	if errors.As(err, &failed) {
		got = failed.ExitCode()
	} else if err != nil {
		ts.Fatalf("run sluice: %v", err)
	}
	if got != want {
		ts.Fatalf("sluice %v ended with %d, want %d", args[1:], got, want)
	}
}

// asNobody writes a kubeconfig of a user who has only the rights of every user.
func asNobody(from, to string) error {
	config, err := clientcmd.LoadFromFile(from)
	if err != nil {
		return err
	}
	for _, user := range config.AuthInfos {
		user.Impersonate = "nobody"
	}
	return clientcmd.WriteToFile(*config, to)
}

// inside makes file arguments absolute, because kubectl does not run in the directory of the script.
func inside(ts *testscript.TestScript, args []string) []string {
	for i := range args {
		if i > 0 && (args[i-1] == "-f" || args[i-1] == "--patch-file") {
			args[i] = ts.MkAbs(args[i])
		}
	}
	return args
}
