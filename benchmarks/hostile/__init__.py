"""How long pages that are made to hold up a parser keep the event loop of a worker."""
