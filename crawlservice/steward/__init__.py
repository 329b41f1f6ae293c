"""The steward: the process of a node that does the chores of the cluster."""
