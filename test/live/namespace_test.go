//go:build linux

package live

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"
)

// inside is set in the process that runs in the separate network.
const inside = "SLUICE_LIVE_INSIDE"

// enter runs this program again, as the first process of new namespaces, and returns its exit code. When that process
// ends, all its children end too, even if this process has ended.
func enter() int {
	runtime.LockOSThread() // the child ends with the thread that started it
	cmd := exec.Command("/proc/self/exe", os.Args[1:]...)
	cmd.Env = append(os.Environ(), inside+"=1")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNET | syscall.CLONE_NEWNS | syscall.CLONE_NEWPID,
		UidMappings: []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}},
		Pdeathsig:   syscall.SIGKILL,
	}
	if err := cmd.Start(); err != nil {
		fmt.Printf("live: all %d cases are skipped, for there are no user namespaces here: %v\n", 2*len(planes), err)
		return 0
	}
	err := cmd.Wait()
	if exit := new(exec.ExitError); err != nil && !errors.As(err, &exit) {
		fmt.Fprintf(os.Stderr, "live: %v\n", err)
		return 1
	}
	return cmd.ProcessState.ExitCode()
}

// arrange makes every address that a pod can have an address of this machine: a loopback interface has all addresses
// within its mask.
func arrange() error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("open a socket: %w", err)
	}
	defer unix.Close(fd)
	loopback, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	loopback.SetUint16(unix.IFF_UP | unix.IFF_RUNNING)
	if err := unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, loopback); err != nil {
		return fmt.Errorf("bring the loopback interface up: %w", err)
	}
	for _, set := range []struct {
		request uint
		value   []byte
	}{{unix.SIOCSIFADDR, []byte{10, 0, 0, 1}}, {unix.SIOCSIFNETMASK, []byte{255, 0, 0, 0}}} {
		pods, err := unix.NewIfreq("lo:pods")
		if err != nil {
			return err
		}
		if err := pods.SetInet4Addr(set.value); err != nil {
			return err
		}
		if err := unix.IoctlIfreq(fd, set.request, pods); err != nil {
			return fmt.Errorf("add the addresses of pods: %w", err)
		}
	}
	return nil
}
