"""Operations on watches."""
