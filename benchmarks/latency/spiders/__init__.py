"""The spider for the setting of Zhao and Liu, in its own package, so that a node has no others."""
