// Package customNetworkProvider is where users of OpenKruise run the test cases
// of traffic scripts:
//
//	go test -v ./pkg/trafficrouting/network/customNetworkProvider/
//
// It holds nothing but that test; scripts are run by package script. Its one
// invariant: every case in lua_configuration is run.
package customNetworkProvider
