"""The choice of pages that need a browser, learned by templates of URLs."""
