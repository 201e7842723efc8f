package main

import (
	"encoding/json"
	"fmt"
	"log/slog"

	"github.com/prometheus/prometheus/config"
	"github.com/prometheus/prometheus/discovery"
	_ "github.com/prometheus/prometheus/discovery/file" // the only discovery mechanism of this binary
)

// scrapeConfig uses Prometheus' own parser, so that its defaults and checks apply. Prometheus keeps histograms in both forms when an exporter offers both.
func scrapeConfig(opts options, log *slog.Logger) (*config.Config, error) {
	targets, err := json.Marshal(opts.targets) // a JSON string is a YAML string
	if err != nil {
		return nil, fmt.Errorf("quote the name of the file of targets: %w", err)
	}
	text := fmt.Sprintf(`global:
  scrape_interval: %[1]dms
  scrape_timeout: %[1]dms
  scrape_native_histograms: true
  always_scrape_classic_histograms: true
scrape_configs:
- job_name: targets
  file_sd_configs:
  - files: [%[2]s]
`, opts.interval.Milliseconds(), targets)
	loaded, err := config.Load(text, log)
	if err != nil {
		return nil, fmt.Errorf("read the configuration: %w", err)
	}
	return loaded, nil
}

func targetSets(c *config.Config) map[string]discovery.Configs {
	sets := map[string]discovery.Configs{}
	for _, job := range c.ScrapeConfigs {
		sets[job.JobName] = job.ServiceDiscoveryConfigs
	}
	return sets
}
