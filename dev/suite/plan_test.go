package main

import (
	"slices"
	"testing"
	"time"
)

func TestTheLongestJobsAreFirst(t *testing.T) {
	short, long, module, unknown := job{packages: []string{"./test/a"}}, job{packages: []string{"./test/b"}, how: "under kills"}, job{module: "dev/m", packages: []string{"."}}, job{packages: []string{"./test/c"}}
	expected := times{{"verify", "s", "test/a"}: time.Second, {"verify", "s", "test/b (under kills)"}: time.Minute, {"verify", "s", "dev/m"}: 2 * time.Second, {"test", "s", "test/c"}: time.Hour}
	var got []string
	for _, j := range (stage{name: "s", jobs: []job{unknown, short, module, long}}).longestFirst(expected, "verify") {
		got = append(got, j.module+j.packages[0])
	}
	if want := []string{"./test/b", "dev/m.", "./test/a", "./test/c"}; !slices.Equal(got, want) {
		t.Errorf("the order is %v, not %v", got, want)
	}
}
