"""Progress of tasks: counters, budgets, layers, forecasts and outcomes."""
