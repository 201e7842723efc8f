package controlplane_test

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"sluice.dev/sluice/test/controlplane"
)

// lossy is a client of pods that loses its connection after each event.
type lossy struct{ from []string }

func pod(version string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "web", ResourceVersion: version}}
}

func (l *lossy) List(context.Context, metav1.ListOptions) (*corev1.PodList, error) {
	return &corev1.PodList{ListMeta: metav1.ListMeta{ResourceVersion: "5"}, Items: []corev1.Pod{*pod("3")}}, nil
}

func (l *lossy) Watch(_ context.Context, o metav1.ListOptions) (watch.Interface, error) {
	l.from = append(l.from, o.ResourceVersion+" "+o.FieldSelector)
	events := make(chan watch.Event, 1)
	events <- watch.Event{Type: watch.Modified, Object: pod([]string{"6", "7", "8"}[len(l.from)-1])}
	close(events)
	return watch.NewProxyWatcher(events), nil
}

func TestAWatchGoesOnWhereTheConnectionWasLost(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		client := &lossy{}
		events, err := controlplane.Watch(t.Context(), client, metav1.ListOptions{FieldSelector: "metadata.name=web"})
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for range 4 {
			e := <-events.ResultChan()
			got = append(got, string(e.Type)+" "+e.Object.(*corev1.Pod).ResourceVersion)
		}
		events.Stop()
		synctest.Wait()
		if diff := cmp.Diff([]string{"ADDED 3", "MODIFIED 6", "MODIFIED 7", "MODIFIED 8"}, got); diff != "" {
			t.Error(diff)
		}
		if diff := cmp.Diff([]string{"5 metadata.name=web", "6 metadata.name=web", "7 metadata.name=web"}, client.from); diff != "" {
			t.Error(diff)
		}
	})
}
