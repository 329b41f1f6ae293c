"""The interval of each pair of proxy and host, over two nodes, from the log of the servers."""
