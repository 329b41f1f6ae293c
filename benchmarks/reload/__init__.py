"""Speed of code changes under ``runcrawler --reload``, and their effect on the crawl."""
