"""Operations on schedules."""
