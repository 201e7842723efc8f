package main

// sloppy mutants lose leases and hints.
func sloppy() []mutant {
	return []mutant{
		{"a lease is not renewed", []edit{{
			"pkg/queue/lease.go", "l.renewal.Go(func() { l.renewPeriodically(keep) })", "_ = keep",
		}}, unit("queue", "TestALongRunKeepsItsLeaseAndItsHint")},
		{"a run makes a canary although its lease is over", []edit{{
			"pkg/kube/fence.go", "leased && apiclient.DeadlinePassed(until)", "leased && until.IsZero() && apiclient.DeadlinePassed(until)",
		}}, unit("kube", "TestNothingIsMadeFromWhatWasSeenLongAgo")},
		{"a hint is taken for a repeat of the one before", []edit{{
			"pkg/queue/publish.go", "\tm := nats.NewMsg(key.WorkSubject())\n\tstampMessage(ctx, m)\n", "\tm := nats.NewMsg(key.WorkSubject())\n\tm.Header.Set(headerMsgID, key.String())\n\tstampMessage(ctx, m)\n",
		}}, unit("queue", "TestAHintThatIsGivenAgainIsNoRepeat")},
	}
}
