"""Simulation: a whole cluster in one process on simulated time; each failure is a seed. The real
master, worker, steward, scripts and ledger run; the scheduler decides what happens when.

``python -m tests.simulation --seed 7`` runs one seed, ``--minutes 3`` as many as fit."""
