package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/util/validation"

	"sluice.dev/sluice/deploy"
	"sluice.dev/sluice/pkg/api"
)

func (c *cli) installCommand() *cobra.Command {
	var show bool
	var parts []string
	in := api.DefaultInstallation()
	accounts := map[string]string{}
	install := &cobra.Command{
		Use: "install --print", Short: "Print the manifests that install Sluice in a cluster",
		Long: "Print everything that a cluster needs, as one YAML stream. To run the parts elsewhere, as sluice run does, install all but\n" +
			"the parts: --part namespace,crds,policies,rbac.\n\n" +
			"The analysis templates for every cluster, such as istio-success-rate, are the part templates. It is printed only when it is named,\n" +
			"because it can be applied once the CRDs are there.\n\n" +
			"A cluster has one installation. The admission policies know the executors by their namespace and service account: print all parts for the\n" +
			"same ones, also later. sluice check finds them in the cluster.",
		Example: fmt.Sprintf("  %[1]s install --print | kubectl apply --server-side -f -\n  %[1]s install --print --part templates | kubectl apply --server-side -f -\n"+
			"  %[1]s install --print --namespace progressive | kubectl apply --server-side -f -\n  %[1]s install --print --part crds,policies", c.command),
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			if !show {
				return errors.New("nothing is installed by this command itself; use: " + c.command + " install --print | kubectl apply --server-side -f -")
			}
			if err := nameInstallation(&in, accounts); err != nil {
				return err
			}
			manifests, err := deploy.Manifests(in, parts...)
			if err != nil {
				return err
			}
			_, err = c.out.Write(manifests)
			return err
		},
	}
	installNamespaceFlag(install, &in.Namespace, "namespace to install in")
	install.Flags().StringToStringVar(&accounts, "service-account", nil, "act as other service accounts than sluice-watcher, sluice-executor and sluice-analyzer, as PROGRAM=NAME, separated by commas")
	install.Flags().BoolVar(&show, "print", false, "print the manifests")
	install.Flags().StringSliceVar(&parts, "part", nil, "print only these: namespace, crds, policies, rbac, parts, templates")
	_ = install.RegisterFlagCompletionFunc("part", cobra.FixedCompletions([]string{"namespace", "crds", "policies", "rbac", "parts", "templates"}, cobra.ShellCompDirectiveNoFileComp))
	return install
}

// installNamespaceFlag adds --namespace for the namespace of an installation, in the place of the general flag, which has another default.
func installNamespaceFlag(cmd *cobra.Command, into *string, usage string) {
	cmd.Flags().StringVarP(into, "namespace", "n", api.DefaultNamespace, usage)
	_ = cmd.RegisterFlagCompletionFunc("namespace", cobra.NoFileCompletions)
}

// nameInstallation checks the namespace of an installation, and gives it the named service accounts.
func nameInstallation(in *api.Installation, accounts map[string]string) error {
	if problems := validation.IsDNS1123Label(in.Namespace); len(problems) > 0 {
		return fmt.Errorf("--namespace %q: %s", in.Namespace, strings.Join(problems, "; "))
	}
	for program, account := range accounts {
		into := in.Accounts()[program]
		if into == nil {
			return fmt.Errorf("--service-account %s=%s: there is no program %q; use watcher, executor or analyzer", program, account, program)
		}
		if problems := validation.IsDNS1123Subdomain(account); len(problems) > 0 {
			return fmt.Errorf("--service-account %s=%s: %s", program, account, strings.Join(problems, "; "))
		}
		*into = account
	}
	return nil
}
