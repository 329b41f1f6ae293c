"""Operations on exports."""
