"""Operations on spiders."""
