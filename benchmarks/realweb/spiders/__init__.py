"""The spider of this benchmark."""
