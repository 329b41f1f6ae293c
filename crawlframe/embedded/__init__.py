"""The private Redis server of a checkout that has no Redis configured."""
