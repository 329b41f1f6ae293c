"""The supervisor of --reload: watches the code, pulls from git, replaces masters."""
