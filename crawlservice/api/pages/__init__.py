"""Operations on pages, kept pages, and parsing them again."""
