"""Tasks: submitted, steered, retried, labelled and removed."""
