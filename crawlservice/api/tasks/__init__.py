"""Operations on tasks: submit, steer, items, tables, files, quality and logs."""
