"""The web server that `up` and the image run."""
