"""Users: roles, logins, sessions, tokens and the journal."""
