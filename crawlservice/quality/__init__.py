"""Quality of runs: profiles of items and pages, what is compared, and what was found."""
