"""Rollouts: a revision on a few nodes first, then on all."""
