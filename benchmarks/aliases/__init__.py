"""Rules of aliases: what they save on a site that has them, and whether they lose pages."""
