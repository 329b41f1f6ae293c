"""The commit of outcomes: the participants that features are."""
