"""The downloaders, which turn a request into a response."""
