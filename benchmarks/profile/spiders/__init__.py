"""The spider of the profile."""
