package workload

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"testing"
	"time"

	"sluice.dev/sluice/test/natsdir"
	"sluice.dev/sluice/test/world"
)

// abreast is the number of stories played at a time, unless -parallel sets another. Stories mostly wait.
const abreast = "12"

func TestMain(m *testing.M) {
	flag.Parse()
	chosen := false
	flag.Visit(func(f *flag.Flag) { chosen = chosen || f.Name == "test.parallel" })
	if !chosen {
		if err := flag.Set("test.parallel", abreast); err != nil {
			panic(err)
		}
	}
	code, err := run(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// shared is the world of all tests; nil with -short.
var shared *world.World

func run(m *testing.M) (code int, err error) {
	if testing.Short() {
		return m.Run(), nil
	}
	dir, err := os.MkdirTemp("", "sluice-workload-")
	if err != nil {
		return 1, err
	}
	defer func() { err = errors.Join(err, natsdir.Remove(dir)) }()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	if shared, err = world.Start(ctx, dir, world.Options{}); err != nil {
		return 1, err
	}
	defer func() { shared.NATS.Close(); err = errors.Join(err, shared.Stop()) }()
	stop, err := Prepare(ctx, shared)
	if err != nil {
		return 1, err
	}
	defer func() { err = errors.Join(err, stop()) }()
	if err := shared.ServeScaledObjects(ctx); err != nil {
		return 1, err
	}
	for _, start := range []func() (func(), error){
		func() (func(), error) { return shared.RunWatcher(context.Background()) },
		func() (func(), error) { return shared.RunExecutor(context.Background(), "") },
	} {
		stop, err := start()
		if err != nil {
			return 1, err
		}
		defer stop()
	}
	return m.Run(), nil
}

// each plays a story for every kind of workload, in parallel.
func each(t *testing.T, story func(*testing.T, Kind)) {
	t.Helper()
	t.Parallel()
	if testing.Short() {
		t.Skip("it needs a control plane, which -short leaves out")
	}
	for _, kind := range Kinds() {
		t.Run(kind.Name, func(t *testing.T) {
			t.Parallel()
			story(t, kind)
		})
	}
}
