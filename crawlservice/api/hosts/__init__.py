"""Operations on hosts."""
