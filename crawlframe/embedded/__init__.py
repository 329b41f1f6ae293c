"""The private Redis server of a checkout in which no Redis is configured."""
