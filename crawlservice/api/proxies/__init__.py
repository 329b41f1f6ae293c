"""Operations on proxies and lists of proxies."""
