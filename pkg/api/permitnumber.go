package api

// PermitNumber identifies a permit of a fleet. A later one has a higher Epoch, or the same Epoch and a higher Seq.
//
// +k8s:deepcopy-gen=false
type PermitNumber struct{ Epoch, Seq int64 }

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

// Number returns the number of the last permit that the user overrode.
func (o *FleetOverride) Number() PermitNumber { return PermitNumber{o.Epoch, o.Seq} }

// Number returns the number of the permit that the report answers.
func (r *FleetReport) Number() PermitNumber { return PermitNumber{r.Epoch, r.Seq} }

// Number returns the number of the permits that the grant gives.
func (g *FleetGrant) Number() PermitNumber { return PermitNumber{g.Epoch, g.Seq} }
