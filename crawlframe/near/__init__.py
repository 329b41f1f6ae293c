"""Pages whose texts are nearly the same: the text that is compared, and the fingerprint that is
kept of it."""
