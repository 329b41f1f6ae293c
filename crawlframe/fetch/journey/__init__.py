"""One fetch with its redirects, cookies, limits and proxy."""
