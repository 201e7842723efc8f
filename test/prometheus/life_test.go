package prometheus_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"sluice.dev/sluice/test/prometheus"
)

// parentVariable makes the test binary a parent that starts a Prometheus, prints its address, and waits to be killed.
const parentVariable = "PROMETHEUS_TEST_PARENT"

func TestMain(m *testing.M) {
	if os.Getenv(parentVariable) == "" {
		os.Exit(m.Run())
	}
	s, err := prometheus.Start(context.Background(), prometheus.Options{Dir: os.Getenv(parentVariable)})
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	fmt.Println(s.Address)
	select {}
}

func TestItEndsWithAParentThatIsKilled(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("it needs a Prometheus, which -short leaves out")
	}
	parent := exec.Command(os.Args[0])
	parent.Env = append(os.Environ(), parentVariable+"="+t.TempDir())
	stdout, err := parent.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := parent.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = parent.Process.Kill(); _ = parent.Wait() })
	line, _ := bufio.NewReader(stdout).ReadString('\n')
	address := strings.TrimSpace(line)
	if !answers(address) {
		t.Fatalf("nothing answers at %q", address)
	}
	if err := parent.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	for ctx := patience(t); answers(address); {
		if ctx.Err() != nil {
			t.Fatal("it outlived its parent")
		}
	}
}

func answers(address string) bool {
	response, err := http.Get(address + "/api/v1/query?query=1")
	if err != nil {
		return false
	}
	_ = response.Body.Close()
	return response.StatusCode == http.StatusOK
}

func TestItEndsCleanlyWhenToldTo(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("it needs a Prometheus, which -short leaves out")
	}
	binary, err := prometheus.Binary()
	if err != nil {
		t.Fatal(err)
	}
	process := exec.Command(binary, "--dir", t.TempDir())
	stdout, err := process.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := process.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = process.Process.Kill() })
	line, err := bufio.NewReader(stdout).ReadBytes('\n')
	if err != nil {
		t.Fatal(err)
	}
	var announced struct{ Address string }
	if err := json.Unmarshal(line, &announced); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	if err := process.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := process.Wait(); err != nil {
		t.Error(err)
	}
	t.Logf("it ended in %s", time.Since(began))
	if answers(announced.Address) {
		t.Error("something still answers")
	}
}

func TestOneThatComesBackHasItsAddressItsTargetsAndItsData(t *testing.T) {
	t.Parallel()
	a := startApp(t)
	dir := t.TempDir()
	s := prometheus.ForTest(t, prometheus.Options{Dir: dir, Interval: interval})
	if err := s.Scrape(prometheus.Target{Address: a.address}); err != nil {
		t.Fatal(err)
	}
	await(t, s, a)
	if err := s.Stop(); err != nil {
		t.Fatal(err)
	}
	stopped := fmt.Sprintf("%.3f", float64(time.Now().UnixMilli())/1000)
	again := prometheus.ForTest(t, prometheus.Options{Dir: dir, Interval: interval, Listen: strings.TrimPrefix(s.Address, "http://")})
	if again.Address != s.Address {
		t.Errorf("it is at %s and was at %s", again.Address, s.Address)
	}
	if got := number(t, again, "count_over_time(up[5m] @ "+stopped+")"); got < 1 {
		t.Error("what was scraped before is gone")
	}
	await(t, again, a)
}

func TestAWrongFlagIsNamed(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("it needs a Prometheus, which -short leaves out")
	}
	binary, err := prometheus.Binary()
	if err != nil {
		t.Fatal(err)
	}
	for sentence, args := range map[string][]string{
		"name a directory with --dir": {},
		`"up" is no flag`:             {"up"},
		"--interval 1.5ms is not a whole number of milliseconds": {"--dir", t.TempDir(), "--interval", "1.5ms"},
	} {
		out, err := exec.CommandContext(t.Context(), binary, args...).CombinedOutput()
		if err == nil || !strings.Contains(string(out), sentence) {
			t.Errorf("%v: %v %s", args, err, out)
		}
	}
}
