"""Profile: the processor time of a page, part by part, each measured alone."""
