-- confirm: does Redis still know all that this client was told is done? (read only)
-- KEYS[1] tag of the partition
-- Answer: 1. Errors ERA, LOST.
return 1
