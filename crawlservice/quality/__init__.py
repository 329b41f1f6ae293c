"""Quality of runs: profiles of items and pages, comparisons with good runs, and findings."""
