"""Time that pages made to hold up a parser keep the event loop of a worker."""
