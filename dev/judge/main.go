// Command judge measures how well the analysis judges canaries. It compares with other tests how often it fails good ones, and how soon it detects bad ones. It
// prints the acceptance table and a suite of injected faults, and exits with 1 if the comparison of pkg/analysis misses its promises. The same seed gives the
// same numbers on every machine.
//
// It is a simulation: it sends no requests, and queries no Prometheus. It generates counters, scrapes, restarts and traffic itself, from published models of
// bursts, sessions and clients.
package main

import (
	"flag"
	"fmt"
	"os"
	"regexp"
	"time"
)

func main() {
	runs := flag.Int("runs", 800, "simulated releases for each row of the table; a quarter as many where bursts hide a bad canary")
	cases := flag.Int("cases", 20, "simulated releases for each kind of fault, and as many without it")
	seed := flag.Uint64("seed", 1, "where random numbers start")
	only := flag.String("rows", "", "a regular expression: play only the rows of the table whose names match, and nothing else")
	flag.Parse()
	pattern, err := regexp.Compile(*only)
	if err != nil {
		fmt.Fprintln(os.Stderr, "error: --rows:", err)
		os.Exit(2)
	}

	began := time.Now()
	fmt.Printf("Comparing canary and stable: seed %d, %d runs a row, a look every %s for %s, alpha %g.\n\n", *seed, *runs, look, horizon, alpha)
	var list []row
	for _, r := range rows() {
		if pattern.MatchString(r.name) {
			list = append(list, r)
		}
	}
	missed := printTable(os.Stdout, playRows(list, *runs, *seed))

	if *only == "" {
		fmt.Printf("\nWhat passAfter lets pass, 0.1 %% base errors, canary and stable 50 requests/s each, %d runs a row.\n\n", *runs)
		missed += printPasses(os.Stdout, playPasses(*runs, *seed))

		fmt.Printf("\nInjected faults: counters of simulated pods, scraped every %s, judged every %s for %s.\n\n", scrape, interval, horizon)
		missed += printFaults(os.Stdout, playFaults(*cases, *seed))
	}

	fmt.Printf("\nThis took %s.\n", time.Since(began).Round(time.Second))
	if missed > 0 {
		fmt.Printf("MISSED: %d promises are not kept; they are marked above.\n", missed)
		os.Exit(1)
	}
}
