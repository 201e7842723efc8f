package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"sluice.dev/sluice/deploy"
)

func (c *cli) installCommand() *cobra.Command {
	var show bool
	var parts []string
	install := &cobra.Command{
		Use: "install --print", Short: "Print the manifests that install Sluice in a cluster",
		Long: "Print everything that a cluster needs, as one YAML stream. To run the parts elsewhere, as sluice run does, install all but\n" +
			"the parts: --part namespace,crds,policies,rbac.\n\n" +
			"The analysis templates for every cluster, such as istio-success-rate, are the part templates. It is printed only when it is named,\n" +
			"because it can be applied once the CRDs are there.",
		Example: fmt.Sprintf("  %[1]s install --print | kubectl apply --server-side -f -\n  %[1]s install --print --part templates | kubectl apply --server-side -f -\n"+
			"  %[1]s install --print --part crds,policies", c.command),
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			if !show {
				return errors.New("nothing is installed by this command itself; use: " + c.command + " install --print | kubectl apply --server-side -f -")
			}
			manifests, err := deploy.Manifests(parts...)
			if err != nil {
				return err
			}
			_, err = c.out.Write(manifests)
			return err
		},
	}
	install.Flags().BoolVar(&show, "print", false, "print the manifests")
	install.Flags().StringSliceVar(&parts, "part", nil, "print only these: namespace, crds, policies, rbac, parts, templates")
	_ = install.RegisterFlagCompletionFunc("part", cobra.FixedCompletions([]string{"namespace", "crds", "policies", "rbac", "parts", "templates"}, cobra.ShellCompDirectiveNoFileComp))
	return install
}
