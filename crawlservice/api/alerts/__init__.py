"""Operations on alerts and their rules."""
