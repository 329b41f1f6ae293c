"""Facts of the dashboard: nodes and their generations, overview, charts."""
