//go:build ignore

// Command convert_test_case_to_lua_object writes <case>_obj.lua next to each
// test case of the built-in scripts. Run it from the root of the repository or
// from lua_configuration.
package main

import (
	"fmt"
	"os"

	"sluice.dev/sluice/pkg/script/cases"
)

func main() {
	root := "."
	if _, err := os.Stat("lua_configuration"); err == nil {
		root = "lua_configuration"
	}
	written, err := cases.ConvertAll(root)
	for _, name := range written {
		fmt.Println(name)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
