"""The HTTP API: what the admin can do, for programs. See docs/api.md."""
