"""Service: the time that each page of a large installation takes."""
