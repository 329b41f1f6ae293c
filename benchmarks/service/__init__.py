"""Service: how long each page of a large installation takes."""
