"""The downloader on libcurl."""
