"""Protection of the web: hosts, headers, addresses and limits of logins."""
