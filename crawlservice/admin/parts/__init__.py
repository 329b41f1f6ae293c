"""Fields, filters and page parts that several admin pages share."""
