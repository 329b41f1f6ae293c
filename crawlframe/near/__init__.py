"""Pages whose texts are nearly the same: which text is compared, and what is kept of it."""
