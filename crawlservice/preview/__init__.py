"""Previews: what a change of the code does to the data, tried on kept pages."""
