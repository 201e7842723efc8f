package main

import (
	"math"
	"time"
)

// source draws how errors vary: the mean of a multiplier over the next time d. The multiplier has the mean 1 over a long time.
type source interface {
	next(d time.Duration) float64
}

// steady is a source that never varies.
type steady struct{}

func (steady) next(time.Duration) float64 { return 1 }

// bursts multiplies errors by a gamma variable that changes after each lasts. Counts are then negative binomial (Greenwood and Yule, 1920).
type bursts struct {
	c           chance
	shape       float64
	lasts, left time.Duration
	now         float64
}

func newBursts(c chance, shape float64, lasts time.Duration) *bursts {
	b := &bursts{c: c, shape: shape, lasts: lasts, now: c.gamma(shape)}
	if lasts > look {
		b.left = time.Duration(c.Float64() * float64(lasts))
	}
	return b
}

func (b *bursts) next(d time.Duration) float64 {
	sum := 0.0
	for open := d; open > 0; {
		if b.left == 0 {
			b.now, b.left = b.c.gamma(b.shape), b.lasts
		}
		part := min(open, b.left)
		sum += b.now * part.Seconds()
		open, b.left = open-part, b.left-part
	}
	return sum / d.Seconds()
}

// outages multiplies errors by a factor, while it is on. Times on and off are exponential: the two states of Gilbert (1960) and Elliott (1963).
type outages struct {
	c       chance
	factor  float64
	on, off time.Duration
	isOn    bool
	left    time.Duration
}

func newOutages(c chance, factor float64, on, off time.Duration) *outages {
	return &outages{c: c, factor: factor, on: on, off: off, isOn: c.Float64() < on.Seconds()/(on+off).Seconds()}
}

func (o *outages) next(d time.Duration) float64 {
	mean := (o.factor*o.on.Seconds() + o.off.Seconds()) / (o.on + o.off).Seconds()
	return (1 + (o.factor-1)*o.onFor(d)) / mean
}

// onFor draws the part of the next time d that it is on.
func (o *outages) onFor(d time.Duration) float64 {
	sum := time.Duration(0)
	for open := d; open > 0; {
		if o.left == 0 {
			o.isOn = !o.isOn
			mean := o.off
			if o.isOn {
				mean = o.on
			}
			o.left = max(1, time.Duration(o.c.ExpFloat64()*float64(mean)))
		}
		part := min(open, o.left)
		if o.isOn {
			sum += part
		}
		open, o.left = open-part, o.left-part
	}
	return sum.Seconds() / d.Seconds()
}

// sessions lets some users fail: all of their requests do, while their session lasts (clusters of Neyman and Scott, 1958). users is the mean number of
// failing users at a time; lasts is the mean of an exponential time.
type sessions struct {
	c      chance
	users  float64
	lasts  time.Duration
	active float64
}

func newSessions(c chance, users float64, lasts time.Duration) *sessions {
	return &sessions{c: c, users: users, lasts: lasts, active: c.poisson(users)}
}

func (s *sessions) next(d time.Duration) float64 {
	part, sum, looks := look.Seconds()/s.lasts.Seconds(), 0.0, 0.0
	for range int(d / look) {
		s.active = max(0, s.active+s.c.poisson(s.users*part)-s.c.poisson(s.active*part))
		sum, looks = sum+s.active, looks+1
	}
	return sum / looks / s.users
}

// brownout multiplies a share of the looks, each on its own, by 50.
type brownout struct {
	c    chance
	part float64
}

func (b brownout) next(d time.Duration) float64 {
	sum, looks := 0.0, 0.0
	for range int(d / look) {
		if looks++; b.c.Float64() < b.part {
			sum += 50
		} else {
			sum++
		}
	}
	return sum / looks
}

// clients lets five clients fail for two of ten minutes each. The largest sends nearly half of the bad requests (Zipf).
type clients [5]*outages

func newClients(c chance) source {
	var list clients
	for i := range list {
		list[i] = newOutages(c, math.Inf(1), 2*time.Minute, 8*time.Minute)
	}
	return list
}

func (l clients) next(d time.Duration) float64 {
	sum, weights := 0.0, 0.0
	for i, o := range l {
		weight := 1 / float64(i+1)
		sum, weights = sum+weight*o.onFor(d), weights+weight
	}
	return sum / weights / 0.2
}
