"""The state of the cluster in Redis: nodes, leases, rollouts, catalogue of spiders."""
