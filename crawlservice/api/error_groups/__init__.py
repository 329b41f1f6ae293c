"""Operations on errors, grouped by their cause."""
