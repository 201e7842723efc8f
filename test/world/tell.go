package world

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
)

const (
	// toldWrites is the number of writes that a failed test shows, toldChanges the number of bytes of each change.
	toldWrites, toldChanges = 60, 500
)

// Tell shows the last writes to the namespace of a failed test: the user of each, and the change.
func Tell(t testing.TB, writes []Write) {
	t.Helper()
	if !t.Failed() {
		return
	}
	var told []string
	before := map[string]map[string]string{}
	for _, w := range writes {
		object := w.Resource + " " + w.Name
		line := fmt.Sprintf("%s %s %s", w.Received.Format("15:04:05.000"), w.User[strings.LastIndex(w.User, ":")+1:], w.Verb)
		line += " " + strings.TrimSuffix(w.Resource+"/"+w.Subresource, "/") + " " + w.Name
		switch {
		case w.Code >= 300:
			line += fmt.Sprintf(": %d %s", w.Code, w.Message)
		case w.Object != nil:
			now := map[string]string{}
			flatten(now, "", w.Object.Object)
			line += ": " + changes(before[object], now)
			before[object] = now
		}
		told = append(told, line[:min(len(line), toldChanges)])
	}
	t.Logf("the last writes to its namespace:\n%s", strings.Join(told[max(0, len(told)-toldWrites):], "\n"))
}

// flatten lists the fields of an object by their paths, except fields without information.
func flatten(into map[string]string, path string, value any) {
	switch v := value.(type) {
	case map[string]any:
		for key, field := range v {
			if !slices.Contains([]string{"managedFields", "resourceVersion", "lastUpdateTime", "message"}, key) {
				flatten(into, path+"."+key, field)
			}
		}
	case []any:
		for i, item := range v {
			flatten(into, fmt.Sprintf("%s[%d]", path, i), item)
		}
	default:
		into[path] = fmt.Sprint(v)
	}
}

// changes names the fields that differ. It does not list the fields of an object that is seen first.
func changes(before, now map[string]string) string {
	if before == nil {
		return "seen first"
	}
	var list []string
	for _, path := range slices.Sorted(maps.Keys(now)) {
		if was, known := before[path]; !known {
			list = append(list, path+"="+now[path])
		} else if was != now[path] {
			list = append(list, path+"="+was+"→"+now[path])
		}
	}
	for _, path := range slices.Sorted(maps.Keys(before)) {
		if _, known := now[path]; !known {
			list = append(list, path+" gone")
		}
	}
	return strings.Join(list, " ")
}
