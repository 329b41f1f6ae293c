"""Rules of aliases: learned from kept pages, verified, revoked, and given to tasks."""
