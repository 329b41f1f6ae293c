"""The fetch of a claimed request: the stages around it, and the list of them for each crawl."""
