package crash

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"sluice.dev/sluice/pkg/api"
)

// outcome collects and judges what the run has left.
func (f *fleetRun) outcome() *outcome {
	o := &outcome{acts: f.all(), reached: f.reached(), end: map[string]any{}, counts: map[string]string{}, broken: f.journal.told()}
	changes := map[string][]change{}
	for _, name := range slices.Sorted(maps.Keys(f.histories)) {
		changes[name] = f.histories[name].ordered()
		for key, object := range endOf(changes[name], f.namespace) {
			o.end[f.anyRun(name+" "+key)] = object
		}
		for key, n := range countsOf(changes[name]) {
			o.counts[f.anyRun(name+" "+key)] = n
		}
		for _, line := range toldOf(changes[name]) {
			o.told = append(o.told, name+" "+line)
		}
	}
	o.broken = append(o.broken, fleetBreaches(changes["eu1"], changes["eu2"])...)
	for key, u := range f.histories["eu1"].now() {
		switch u.GetKind() {
		case api.KindFleetRollout, api.KindFleetTarget:
			status := maps.Clone(u.Object["status"].(map[string]any))
			for _, field := range timed() {
				delete(status, field)
			}
			o.end[f.anyRun("status of "+key)] = replaced(status, f.namespace)
		}
	}
	o.end = ranked(o.end).(map[string]any)
	return o
}

// timed are the parts of a status at the hub that depend on how fast it hears its clusters.
func timed() []string {
	return []string{"transitions", "transitionSeq", "conditions", "progressed", "progressingSince", "soaked"}
}

// anyRun returns a name of an object without the name of the run.
func (f *fleetRun) anyRun(name string) string { return strings.ReplaceAll(name, "-"+f.namespace, "") }

// epochs matches numbers of releases, which are times in seconds.
func epochs() *regexp.Regexp { return regexp.MustCompile(`\b1\d{9}\b`) }

// ranked returns what is left of a fleet without its times: epochs are counted from 1.
func ranked(end any) any {
	seen := map[string]bool{}
	walk(end, func(key string, value any) any {
		for _, epoch := range epochs().FindAllString(fmt.Sprint(value), -1) {
			seen[epoch] = true
		}
		return value
	})
	order := slices.Sorted(maps.Keys(seen))
	return walk(end, func(key string, value any) any {
		text := fmt.Sprint(value)
		short := epochs().ReplaceAllStringFunc(text, func(epoch string) string {
			return fmt.Sprintf("epoch %d", 1+slices.Index(order, epoch))
		})
		if short == text {
			return value
		}
		return short
	})
}

// walk replaces all values of a tree that are neither maps nor lists.
func walk(tree any, replace func(key string, value any) any) any { return walkFrom("", tree, replace) }

func walkFrom(key string, tree any, replace func(key string, value any) any) any {
	switch v := tree.(type) {
	case map[string]any:
		m := map[string]any{}
		for k, value := range v {
			m[k] = walkFrom(k, value, replace)
		}
		return m
	case []any:
		list := make([]any, len(v))
		for i, value := range v {
			list[i] = walkFrom(key, value, replace)
		}
		return list
	}
	return replace(key, tree)
}
