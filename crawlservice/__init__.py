"""The service: a Django project and app that submits, shows and administers crawls."""
