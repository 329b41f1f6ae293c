"""The identity of a crawler: contact, signatures, credentials and certificates."""
