package analysis

import (
	"net/url"
	"time"

	"sluice.dev/sluice/pkg/api"
)

// parseProvider reads the address of the provider. It does not check whether the host is allowed: the operator decides that, not the template.
func (m *Metric) parseProvider(d api.Metric, args map[string]string) (err error) {
	p := d.Prometheus
	if p.Address == "" {
		return newFieldError("prometheus.address", "is missing; give the base of the HTTP API, such as http://prometheus.monitoring.svc:9090")
	}
	if m.Address, err = FillArguments("prometheus.address", p.Address, args); err != nil {
		return err
	}
	base, err := url.Parse(m.Address)
	if err != nil || base.Scheme != "http" && base.Scheme != "https" || base.Host == "" {
		return newFieldError("prometheus.address", "is %q; write an address such as http://prometheus.monitoring.svc:9090", m.Address)
	}
	for i, h := range p.Headers {
		if i == 0 {
			m.Headers = map[string]string{}
		}
		if m.Headers[h.Name], err = FillArguments("prometheus.headers["+h.Name+"].value", h.Value, args); err != nil {
			return err
		}
	}
	if p.Auth != nil {
		m.Secret = p.Auth.SecretRef.Name
	}
	if m.Timeout, err = parseDuration("prometheus.timeout", string(p.Timeout), defaultTimeout); err != nil {
		return err
	}
	if m.Timeout <= 0 || m.Timeout > maxTimeout {
		return newFieldError("prometheus.timeout", "is %q; give the time for one query, up to 1m", p.Timeout)
	}
	return nil
}

const (
	defaultTimeout = 10 * time.Second
	maxTimeout     = time.Minute
)
