// Package preflight checks whether a cluster is fit for Sluice before any change in it: the server's version, the CRDs, the admission policies, the
// roles, and whether OpenKruise works there too.
//
// It repairs nothing, and it writes only access reviews, which the API server does not keep. `sluice check` and the start of an executor have the
// same findings; they differ only in the findings that stop them.
//
// Invariant: an object that could not be read is reported as unread, never as present or absent.
package preflight

// Level says how bad a finding is.
type Level string

// Levels of findings. Only LevelError stops an executor.
const (
	LevelOK      Level = "ok"
	LevelWarning Level = "warning"
	LevelError   Level = "error"
)

// Finding is the result of one check of a thing that Sluice needs. The JSON form is the output of `sluice check -o json`.
type Finding struct {
	// Check is the subject of the check, in one or two words.
	Check string `json:"check"`
	Level Level  `json:"level"`
	// Message is a sentence with the result.
	Message string `json:"message"`
	// Remedy says what to do about it; empty when nothing is to be done.
	Remedy string `json:"remedy,omitempty"`
}

// Errors are the findings that stop an executor.
func Errors(findings []Finding) []Finding { return findingsAt(LevelError, findings) }

// Warnings are the findings that a user should look at.
func Warnings(findings []Finding) []Finding { return findingsAt(LevelWarning, findings) }

func findingsAt(level Level, findings []Finding) []Finding {
	var list []Finding
	for _, f := range findings {
		if f.Level == level {
			list = append(list, f)
		}
	}
	return list
}

// The commands that remedies name, by what they install.
func (c *Cluster) installCRDs() string     { return c.installation.InstallCommand("crds") }
func (c *Cluster) installPolicies() string { return c.installation.InstallCommand("policies") }
func (c *Cluster) installRBAC() string     { return c.installation.InstallCommand("rbac") }
