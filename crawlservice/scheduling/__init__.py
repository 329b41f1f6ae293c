"""Schedules: times of runs, and the submission of tasks that are due."""
