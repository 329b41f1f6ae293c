"""The files of a site that say what may be fetched of it: robots.txt and tdmrep.json."""
