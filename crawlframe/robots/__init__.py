"""robots.txt and other terms of use: their rules, and for how long they hold."""
