"""Weight: how much there is to carry, beside the limits of ``limits.toml``."""
