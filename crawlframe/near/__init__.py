"""Pages whose texts are nearly the same: the compared text, and its fingerprint."""
