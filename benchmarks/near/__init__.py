"""``make bench JOB=near``: which pages are recognised as nearly the same, and what it costs."""
