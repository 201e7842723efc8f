package main

import (
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"
)

func TestTheProviderTellsHowLateEachQueryCame(t *testing.T) {
	t.Parallel()
	p, address, err := startProvider()
	if err != nil {
		t.Fatal(err)
	}
	ask := func(query, at string) string {
		t.Helper()
		answer, err := http.PostForm(address+"/api/v1/query", url.Values{"query": {query}, "time": {at}})
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		body, err := io.ReadAll(answer.Body)
		if err != nil {
			t.Fatal(err)
		}
		return string(body)
	}
	ago := time.Now().Add(-time.Hour)
	if body := ask("a", fmt.Sprintf("%.3f", float64(ago.UnixMilli())/1000)); !strings.Contains(body, fmt.Sprintf(`[%.3f,"1"]`, float64(ago.UnixMilli())/1000)) {
		t.Errorf("the answer is for another time: %s", body)
	}
	ask("a", ago.Format(time.RFC3339Nano))
	ask("b", "soon")
	if once, twice := p.seen(1), p.seen(2); once != 2 || twice != 1 {
		t.Errorf("%d queries came once and %d twice; want 2 and 1", once, twice)
	}
	late, odd := p.take()
	if len(late) != 2 || odd != 1 {
		t.Fatalf("%d queries had a time and %d had none; want 2 and 1", len(late), odd)
	}
	for _, l := range late {
		if l < time.Hour-time.Second || l > time.Hour+time.Minute {
			t.Errorf("a query for an hour ago came %s late", l)
		}
	}
	if late, odd := p.take(); len(late)+odd > 0 {
		t.Error("what was taken is still there")
	}
	if err := p.stop(); err != nil {
		t.Error(err)
	}
}
