"""The bad morning: a night with many problems at once, and a team that solves them."""
