package main

import (
	"encoding/json"
	"fmt"
	"runtime"
	"runtime/debug"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/client-go/discovery"
	"sigs.k8s.io/yaml"
)

// versions is the output of `sluice version -o json`.
type versions struct {
	Client clientVersion `json:"clientVersion"`
	// Server is the version of Kubernetes; absent without an answer of the server.
	Server string `json:"serverVersion,omitempty"`
}

type clientVersion struct {
	Version   string `json:"version"`
	Commit    string `json:"commit,omitempty"`
	Modified  bool   `json:"modified,omitempty"`
	GoVersion string `json:"goVersion"`
	Platform  string `json:"platform"`
}

const serverDeadline = 15 * time.Second

func (c *cli) versionCommand() *cobra.Command {
	var output string
	var client bool
	version := &cobra.Command{
		Use: "version", Short: "Print the version of this program and of the cluster", Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			v := versions{Client: ownVersion()}
			var unreachable error
			if !client {
				v.Server, unreachable = c.serverVersion()
			}
			if err := c.printVersions(v, output); err != nil {
				return err
			}
			return unreachable
		},
	}
	version.Flags().StringVarP(&output, "output", "o", "", "json or yaml")
	version.Flags().BoolVar(&client, "client", false, "print the version of this program only")
	_ = version.RegisterFlagCompletionFunc("output", cobra.FixedCompletions([]string{"json", "yaml"}, cobra.ShellCompDirectiveNoFileComp))
	return version
}

func (c *cli) printVersions(v versions, output string) error {
	switch output {
	case "json":
		encoder := json.NewEncoder(c.out)
		encoder.SetIndent("", "  ")
		return encoder.Encode(v)
	case "yaml":
		text, err := yaml.Marshal(v)
		if err != nil {
			return fmt.Errorf("write yaml: %w", err)
		}
		_, err = c.out.Write(text)
		return err
	case "":
		fmt.Fprintln(c.out, "Client Version:", v.Client.Version)
		if v.Server != "" {
			fmt.Fprintln(c.out, "Server Version:", v.Server)
		}
		return nil
	}
	return fmt.Errorf("--output %q: use json or yaml", output)
}

// ownVersion returns the version that the Go toolchain recorded in this program.
func ownVersion() clientVersion {
	v := clientVersion{Version: "unknown", GoVersion: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return v
	}
	v.Version = info.Main.Version
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			v.Commit = s.Value
		case "vcs.modified":
			v.Modified = s.Value == "true"
		}
	}
	return v
}

func (c *cli) serverVersion() (string, error) {
	config, err := c.kube.RESTConfig()
	if err != nil {
		return "", err
	}
	config.Timeout = serverDeadline
	client, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return "", fmt.Errorf("make client: %w", err)
	}
	info, err := client.ServerVersion()
	if err != nil {
		return "", err
	}
	return info.GitVersion, nil
}
