"""Where the processor time of a page goes, part by part, each measured alone."""
