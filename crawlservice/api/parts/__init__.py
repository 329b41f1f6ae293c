"""Authentication, paging, errors and schemas that all operations share."""
