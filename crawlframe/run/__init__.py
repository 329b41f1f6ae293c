"""The run of a request, and the sockets for features that take part in it."""
