package main

import "strings"

// natsAccount returns the account of a cluster for the NATS of the hub, as in deploy/nats/fleet.conf. password is a bcrypt hash in quotes.
func natsAccount(cluster, password string) string {
	return strings.NewReplacer("CLUSTER", cluster, "PASSWORD", password).Replace(natsAccountText)
}

const natsAccountText = `"CLUSTER" {
  # The hub refuses orders and answers above 32 KiB. Heartbeats are stored nowhere, so only this limits them.
  limits { max_connections: 100, max_subscriptions: 100, max_payload: 64KiB }
  imports: [
    { service: { account: SLUICE, subject: "sluice.fleet.up.CLUSTER.*.*" } }
    { service: { account: SLUICE, subject: "sluice.fleet.beat.CLUSTER" } }
    { service: { account: SLUICE, subject: "$JS.API.DIRECT.GET.SLUICE_FLEET_DOWN.sluice.fleet.down.CLUSTER.*.*" } }
    { service: { account: SLUICE, subject: "$JS.API.DIRECT.GET.SLUICE_FLEET_UP.sluice.fleet.up.CLUSTER.*.*" } }
    { stream: { account: SLUICE, subject: "sluice.fleet.down.CLUSTER.*.*" } }
  ]
  users: [
    # The cluster answers orders, sends heartbeats, and reads its own orders and answers.
    {
      user: "CLUSTER", password: PASSWORD
      permissions {
        publish: [
          "sluice.fleet.up.CLUSTER.*.*", "sluice.fleet.beat.CLUSTER",
          "$JS.API.DIRECT.GET.SLUICE_FLEET_DOWN.sluice.fleet.down.CLUSTER.*.*", "$JS.API.DIRECT.GET.SLUICE_FLEET_UP.sluice.fleet.up.CLUSTER.*.*"
        ]
        subscribe: ["sluice.fleet.down.CLUSTER.*.*", "_INBOX_CLUSTER.>"]
      }
    }
  ]
}
`
