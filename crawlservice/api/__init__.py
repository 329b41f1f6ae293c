"""The HTTP API: the functions of the admin, for programs. See docs/api.md."""
