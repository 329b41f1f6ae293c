"""Growth: the cost of a page as queue, tasks, hosts and ledger grow."""
