"""Keys that sign requests, their directory, and credentials of hosts."""
