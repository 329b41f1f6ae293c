"""The article of a page: precision, recall and time of ``response.article``."""
