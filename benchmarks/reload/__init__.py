"""How fast changed code goes live under ``runcrawler --reload``, and how it affects the crawl."""
