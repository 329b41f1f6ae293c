"""The working parts of commands: crawl, up, fetch, parse, top, startspider."""
