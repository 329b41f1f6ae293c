"""How fast changed code goes live under ``runcrawler --reload``, and what it costs the crawl."""
