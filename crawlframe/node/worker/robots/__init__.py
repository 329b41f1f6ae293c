"""The files of a site that restrict fetches: robots.txt and tdmrep.json."""
