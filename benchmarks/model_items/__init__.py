"""What items in tables of the team's own cost, beside items as JSON."""
