"""Admin pages of users, tokens, credentials and the journal."""

from crawlservice.admin.people import credentials, journal, people, tokens

__all__ = ["credentials", "journal", "people", "tokens"]
