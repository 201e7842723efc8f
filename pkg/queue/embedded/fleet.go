package embedded

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/nats-io/nats-server/v2/server"
	"k8s.io/apimachinery/pkg/util/validation"
)

// streamsAccount is the account of the user for Sluice, in the server of a fleet's hub. Its exports are those of deploy/nats/users.conf.
const streamsAccount = `
SLUICE {
  jetstream: enabled
  users: [{ user: "USER", password: PASSWORD }]
  exports: [
    { service: "sluice.fleet.up.*.*.*", account_token_position: 4 }
    { service: "sluice.fleet.beat.*", account_token_position: 4 }
    { service: "$JS.API.DIRECT.GET.SLUICE_FLEET_DOWN.sluice.fleet.down.*.*.*", account_token_position: 9 }
    { service: "$JS.API.DIRECT.GET.SLUICE_FLEET_UP.sluice.fleet.up.*.*.*", account_token_position: 9 }
    { stream: "sluice.fleet.down.*.*.*", account_token_position: 4 }
  ]
}
`

// memberAccount is the account of the cluster eu1, as in deploy/nats/fleet.conf, which has the reasons.
const memberAccount = `
"eu1" {
  limits { max_connections: 100, max_subscriptions: 100, max_payload: 64KiB }
  imports: [
    { service: { account: SLUICE, subject: "sluice.fleet.up.eu1.*.*" } }
    { service: { account: SLUICE, subject: "sluice.fleet.beat.eu1" } }
    { service: { account: SLUICE, subject: "$JS.API.DIRECT.GET.SLUICE_FLEET_DOWN.sluice.fleet.down.eu1.*.*" } }
    { service: { account: SLUICE, subject: "$JS.API.DIRECT.GET.SLUICE_FLEET_UP.sluice.fleet.up.eu1.*.*" } }
    { stream: { account: SLUICE, subject: "sluice.fleet.down.eu1.*.*" } }
  ]
  users: [
    {
      user: "eu1", password: PASSWORD
      permissions {
        publish: [
          "sluice.fleet.up.eu1.*.*", "sluice.fleet.beat.eu1",
          "$JS.API.DIRECT.GET.SLUICE_FLEET_DOWN.sluice.fleet.down.eu1.*.*", "$JS.API.DIRECT.GET.SLUICE_FLEET_UP.sluice.fleet.up.eu1.*.*"
        ]
        subscribe: ["sluice.fleet.down.eu1.*.*", "_INBOX_eu1.>"]
      }
    }
  ]
}
`

// addUsers adds the user for Sluice, and an account and a user for each member.
func (s *Server) addUsers(o *server.Options, members map[string]string) error {
	if len(members) == 0 {
		o.Username, o.Password = s.user, s.password
		return nil
	}
	config := streamsAccount
	for _, name := range slices.Sorted(maps.Keys(members)) {
		if faults := validation.IsDNS1123Label(name); len(faults) > 0 || name == s.user {
			return fmt.Errorf("the member %q needs another name, which is a DNS label and not the name of the user for Sluice", name)
		}
		if members[name] == "" {
			return fmt.Errorf("the member %q has no password", name)
		}
		config += strings.ReplaceAll(memberAccount, "eu1", name)
	}
	if err := o.ProcessConfigString("accounts {" + config + "}"); err != nil {
		return fmt.Errorf("add the accounts of a fleet: %w", err)
	}
	// Names and passwords of users may have any characters. The text of a configuration may not.
	for _, user := range o.Users {
		if password, is := members[user.Username]; is {
			user.Password = password
		} else {
			user.Username, user.Password = s.user, s.password
		}
	}
	return nil
}
