"""The API of scrapyd, with which its clients submit and watch tasks here."""
