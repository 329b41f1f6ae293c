"""Kept pages: what of a fetched page is kept, under which key it is found again, how it is
compressed, and the response that it becomes again."""
