"""The commands, a module each, as Django finds them."""
