"""Downloaders of other packages, with the framework's checks around them."""
