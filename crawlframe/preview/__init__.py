"""Previews: the results of another revision of the code on pages that are kept."""
