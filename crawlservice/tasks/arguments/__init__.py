"""Arguments of spiders: their schema, their values, and the secret ones."""
