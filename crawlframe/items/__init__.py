"""Items: their types, encodings and pipelines, and Django models as items."""
