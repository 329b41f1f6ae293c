"""Aliases: several URLs of one page, known by rules that are learned from the pages of a site, so
that the page is fetched once (DUST: different URLs with similar text; Bar-Yossef, Keidar and
Schonfeld, WWW 2007; Dasgupta, Kumar and Sasturkar, KDD 2008)."""
