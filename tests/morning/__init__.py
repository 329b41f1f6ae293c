"""The bad morning: a night in which much goes wrong at once, and what a team does about it."""
