package api

import (
	"fmt"
	"strconv"
	"strings"
)

// PermitNumber identifies a permit of a fleet. A later one has a higher Epoch, or the same Epoch and a higher Seq.
//
// +k8s:deepcopy-gen=false
type PermitNumber struct{ Epoch, Seq int64 }

// String returns both numbers with a dot between them, as annotations have them.
func (n PermitNumber) String() string { return fmt.Sprintf("%d.%d", n.Epoch, n.Seq) }

// ParsePermitNumber is the inverse of String. ok is false for a text that is no number of a permit.
func ParsePermitNumber(text string) (n PermitNumber, ok bool) {
	epoch, seq, _ := strings.Cut(text, ".")
	var errEpoch, errSeq error
	n.Epoch, errEpoch = strconv.ParseInt(epoch, 10, 64)
	n.Seq, errSeq = strconv.ParseInt(seq, 10, 64)
	return n, errEpoch == nil && errSeq == nil && n.Epoch > 0 && n.Seq >= 0
}

// Before reports whether a permit was given before another one.
func (n PermitNumber) Before(other PermitNumber) bool {
	return n.Epoch < other.Epoch || n.Epoch == other.Epoch && n.Seq < other.Seq
}

// Number returns the number of the permit, the zero value for nil.
func (p *FleetPermit) Number() PermitNumber {
	if p == nil {
		return PermitNumber{}
	}
	return PermitNumber{p.Epoch, p.Seq}
}

// Number returns the number of the permit that was used, the zero value for nil.
func (u *FleetPermitUse) Number() PermitNumber {
	if u == nil {
		return PermitNumber{}
	}
	return PermitNumber{u.Epoch, u.Seq}
}

// Number returns the number of the permit whose images were set, the zero value for nil.
func (d *FleetDelivered) Number() PermitNumber {
	if d == nil {
		return PermitNumber{}
	}
	return PermitNumber{d.Epoch, d.Seq}
}

// Number returns the number of the last permit that the user overrode.
func (o *FleetOverride) Number() PermitNumber { return PermitNumber{o.Epoch, o.Seq} }

// Number returns the number of the permit that the report answers.
func (r *FleetReport) Number() PermitNumber { return PermitNumber{r.Epoch, r.Seq} }

// Number returns the number of the permits that the grant gives.
func (g *FleetGrant) Number() PermitNumber { return PermitNumber{g.Epoch, g.Seq} }
