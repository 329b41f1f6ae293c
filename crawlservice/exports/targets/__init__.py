"""The kinds of targets of exports, a module each."""
