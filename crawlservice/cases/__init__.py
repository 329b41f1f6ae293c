"""Causes of bad runs: what broke, since when and by whom; one case a cause."""
