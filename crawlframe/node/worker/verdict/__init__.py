"""Verdicts on fetches: failures, refusals of hosts, the delay before a retry."""
