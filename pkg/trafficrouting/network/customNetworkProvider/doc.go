// Package customNetworkProvider is the package that OpenKruise users know for the test cases of traffic scripts:
//
//	go test -v ./pkg/trafficrouting/network/customNetworkProvider/
//
// It contains only this test; package script runs the scripts. Its one invariant: the test runs every case in lua_configuration.
package customNetworkProvider
