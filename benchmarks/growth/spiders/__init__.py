"""The spider of the benchmark."""
