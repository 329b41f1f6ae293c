"""The HTTP API: what the admin can do, for programs. docs/api.md tells how to use it."""
