"""Guard: whether this checkout is slower than a recorded commit, on the same machine."""
