"""Host names: their addresses, the name servers, and the addresses that are allowed."""
