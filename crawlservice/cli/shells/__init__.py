"""Completion for shells: bash, zsh and fish."""
