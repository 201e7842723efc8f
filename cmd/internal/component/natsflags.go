package component

// This file finds NATS for the commands of users. The sources are flags, the environment, and the note that `sluice run` writes for the user who started it.
// Components create the streams and have their own flags. A command creates nothing in NATS when it connects.

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"sluice.dev/sluice/pkg/queue"
)

// natsTimeout is the longest time for an answer of the server, because a user waits for the command.
const natsTimeout = 15 * time.Second

// NATSFlags select the NATS server. Create them with AddNATSFlags.
type NATSFlags struct {
	nats  NATS
	kube  *Kube
	flags *pflag.FlagSet
}

// AddNATSFlags registers the flags of a command. kube selects the cluster; it may be nil for commands without one.
func AddNATSFlags(flags *pflag.FlagSet, kube *Kube) *NATSFlags {
	f := &NATSFlags{kube: kube, flags: flags}
	f.nats.AddConnectionFlags(flags)
	if kube != nil {
		flags.Lookup("nats-url").Usage += "; without it, the one of the sluice run that works for this cluster on this machine"
	}
	return f
}

// QueueOptions returns the connection of the flags, or else of the environment, or else of the note of `sluice run` for this cluster. note is the path of the
// note if the options come from it.
func (f *NATSFlags) QueueOptions() (o queue.Options, note string, err error) {
	if o, err = f.nats.QueueOptions("sluice-cli", nil); err != nil {
		return o, "", err
	}
	if f.flags.Changed("nats-url") || os.Getenv("NATS_URL") != "" || f.kube == nil {
		return o, "", nil
	}
	config, err := f.kube.RESTConfig()
	if err != nil {
		// A command can use NATS without a cluster: the default address may be right.
		return o, "", nil
	}
	note = NATSNote(NATSDir(config.Host))
	found, err := readNATSNote(note)
	if errors.Is(err, fs.ErrNotExist) {
		return o, "", nil
	}
	if err != nil {
		return o, "", fmt.Errorf("read where sluice run has its NATS: %w; name NATS with --nats-url", err)
	}
	o.URL, o.User, o.Password, o.CredentialsFile = found["NATS_URL"], found["NATS_USER"], found["NATS_PASSWORD"], ""
	return o, note, nil
}

// ConnectQueue connects to the NATS of the flags, and gives up after natsTimeout. The caller closes the queue.
func (f *NATSFlags) ConnectQueue(ctx context.Context) (*queue.Queue, error) {
	o, note, err := f.QueueOptions()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, natsTimeout)
	defer cancel()
	q, err := queue.ConnectExisting(ctx, o)
	switch {
	case err == nil:
		return q, nil
	case note != "":
		return nil, fmt.Errorf("%w. The address is from %s, where sluice run left it: if sluice run has ended, start it again or name NATS with --nats-url", err, note)
	case !f.flags.Changed("nats-url") && os.Getenv("NATS_URL") == "":
		return nil, fmt.Errorf("%w. No NATS was named and no sluice run works for this cluster on this machine: name NATS with --nats-url or $NATS_URL", err)
	}
	return nil, err
}

// NATSDir returns the default directory in which `sluice run` keeps its data for the cluster at this address.
func NATSDir(host string) string {
	cache, err := os.UserCacheDir()
	if err != nil {
		cache = os.TempDir()
	}
	sum := sha256.Sum256([]byte(host))
	return filepath.Join(cache, "sluice", hex.EncodeToString(sum[:6]))
}

// NATSNote returns the file in the directory of a `sluice run` that describes the connection to its NATS.
func NATSNote(dir string) string { return filepath.Join(dir, "nats.env") }

// readNATSNote reads NAME=VALUE lines.
func readNATSNote(path string) (map[string]string, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	values := map[string]string{}
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		if name, value, ok := strings.Cut(lines.Text(), "="); ok {
			values[name] = value
		}
	}
	return values, lines.Err()
}
