"""HTML: bounded parsing, links, forms and structured data of a page."""
