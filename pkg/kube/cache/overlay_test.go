package cache

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
)

var web = types.NamespacedName{Namespace: "shop", Name: "web"}

func service(uid types.UID, version string) *corev1.Service {
	return &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: web.Namespace, Name: web.Name, UID: uid, ResourceVersion: version}}
}

// watchedServices returns an overlay whose list has one Service of version 5. show sends an event to the watch, and
// waits until the overlay has it.
func watchedServices(t *testing.T) (overlay *Overlay[*corev1.Service], show func(watch.EventType, *corev1.Service)) {
	t.Helper()
	events, changed := watch.NewFake(), make(chan struct{}, 1)
	overlay, err := newOverlay(&corev1.Service{}, &cache.ListWatch{
		ListWithContextFunc: func(context.Context, metav1.ListOptions) (runtime.Object, error) {
			return &corev1.ServiceList{ListMeta: metav1.ListMeta{ResourceVersion: "5"}, Items: []corev1.Service{*service("a", "5")}}, nil
		},
		WatchFuncWithContext: func(_ context.Context, o metav1.ListOptions) (watch.Interface, error) {
			if o.SendInitialEvents != nil {
				return nil, errors.New("a list comes from List")
			}
			return events, nil
		},
	}, func(s *corev1.Service) { trimMetadata(s) }, cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc}, func(metav1.Object) { changed <- struct{}{} })
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { overlay.Run(ctx, func(error) {}) })
	t.Cleanup(func() {
		cancel()
		running.Wait()
	})
	overlay.WaitForSync(ctx)
	<-changed
	show = func(what watch.EventType, s *corev1.Service) {
		events.Action(what, s)
		<-changed
	}
	show(watch.Modified, service("a", "6"))
	return overlay, show
}

// versionOf returns the version of the Service in an overlay, "" without one.
func versionOf(t *testing.T, overlay *Overlay[*corev1.Service]) string {
	t.Helper()
	found, known := overlay.GetObject(web)
	if !known {
		t.Fatal("the overlay cannot tell")
	}
	all, known := overlay.ListNamespace(web.Namespace)
	if !known || len(all) > 1 || (len(all) == 1) != (found != nil) || found != nil && all[0].ResourceVersion != found.ResourceVersion {
		t.Errorf("the object is %v, and the list has %v", found, all)
	}
	if found == nil {
		return ""
	}
	return found.ResourceVersion
}

func TestAnOverlayShowsNoObjectAsItWasBeforeAWrite(t *testing.T) {
	t.Parallel()
	overlay, show := watchedServices(t)
	expect := func(want, when string) {
		t.Helper()
		if got := versionOf(t, overlay); got != want {
			t.Errorf("%s: version %q, want %q", when, got, want)
		}
	}
	expect("6", "before any write")
	overlay.StoreAnswer(service("a", "8"))
	expect("8", "after a write that the watch has not shown")
	show(watch.Modified, service("a", "7"))
	expect("8", "when the watch shows an older version")
	overlay.StoreAnswer(service("a", "7"))
	expect("8", "after an older answer that was slow")
	show(watch.Modified, service("a", "9"))
	expect("9", "when the watch shows a newer version")
	overlay.MarkDeleted("a", false)
	expect("", "after a deletion that the watch has not shown")
	show(watch.Deleted, service("a", "10"))
	expect("", "when the watch shows the deletion")
	overlay.StoreAnswer(service("b", "11"))
	expect("11", "after another object of that name was made")
}

func TestAnObjectThatLingersIsShownAsBeingDeleted(t *testing.T) {
	t.Parallel()
	overlay, show := watchedServices(t)
	before := time.Now().Add(-time.Second)
	overlay.MarkDeleted("a", true)
	found, _ := overlay.GetObject(web)
	if found == nil || found.DeletionTimestamp == nil || found.DeletionTimestamp.Time.Before(before) {
		t.Errorf("it is shown as %v", found)
	}
	if !overlay.HasObject(web) {
		t.Error("it is said to be gone")
	}
	show(watch.Deleted, service("a", "7"))
	if overlay.HasObject(web) {
		t.Error("after the watch has shown its end it is said to be there")
	}
}

func TestAnOverlayThatIsNotWatchedCannotTell(t *testing.T) {
	t.Parallel()
	overlay, err := newOverlay(&corev1.Service{}, &cache.ListWatch{}, func(*corev1.Service) {}, nil, func(metav1.Object) {})
	if err != nil {
		t.Fatal(err)
	}
	overlay.StoreAnswer(service("a", "5"))
	for name, o := range map[string]*Overlay[*corev1.Service]{"one that was not started": overlay, "none": nil} {
		if found, known := o.GetObject(web); known || o.HasObject(web) || o.IsUsable() {
			t.Errorf("%s: it tells of %v", name, found)
		}
	}
}
