"""Training: one step of arithmetic, a loop that decides when, checkpoints that survive anything."""
