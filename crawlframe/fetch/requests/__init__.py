"""The downloader on the requests library, in threads."""
