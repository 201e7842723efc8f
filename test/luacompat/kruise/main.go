// Command theirs runs scripts on OpenKruise's own Lua engine. It is a separate module, so that the engine has the same
// dependencies as in OpenKruise's release.
//
// It reads calls from standard input, one JSON value each, and answers each with one line of JSON.
package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"

	"github.com/openkruise/rollouts/pkg/util/luamanager"
	lua "github.com/yuin/gopher-lua"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

type call struct {
	Script string         `json:"script"`
	Obj    map[string]any `json:"obj"`
}

type answer struct {
	Result json.RawMessage `json:"result,omitempty"`
	Error  string          `json:"error,omitempty"`
}

func main() {
	if err := serve(os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func serve(in io.Reader, out io.Writer) error {
	calls, answers := json.NewDecoder(in), json.NewEncoder(out)
	for {
		var c call
		if err := calls.Decode(&c); err == io.EOF {
			return nil
		} else if err != nil {
			return fmt.Errorf("read call: %w", err)
		}
		if err := answers.Encode(run(c)); err != nil {
			return fmt.Errorf("write answer: %w", err)
		}
	}
}

// run handles a script like OpenKruise's providers, up to the JSON.
func run(c call) answer {
	l, err := (&luamanager.LuaManager{}).RunLuaScript(&unstructured.Unstructured{Object: c.Obj}, c.Script)
	if err != nil {
		return answer{Error: err.Error()}
	}
	v := l.Get(-1)
	if v.Type() != lua.LTTable {
		return answer{Error: "expect table output from Lua script, not " + v.Type().String()}
	}
	text, err := luamanager.Encode(v)
	if err != nil {
		return answer{Error: err.Error()}
	}
	return answer{Result: text}
}
