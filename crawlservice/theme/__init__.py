"""The theme of the admin: its site, menu and colours."""
