"""Reasons for which requests end or wait, where code compares them."""

CANCELLED = "cancelled"  # the reason of a request that ended because its task was cancelled
# Why a request waits or ends: its redirect leads to a page of another request.
DUPLICATE = "duplicate"
CHALLENGED = "challenge"  # why a request goes back that is to be sent again with credentials
# Reasons of requests that politeness ended: without a fetch, or before the callback.
EXCLUDED = frozenset({"robots", "usage"})
NO_ERRORS = EXCLUDED | {CANCELLED}  # reasons of rows that are not counted as errors
