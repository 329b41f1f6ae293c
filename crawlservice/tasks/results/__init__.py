"""Results of tasks: items as tables and files, rows, versions and errors."""
