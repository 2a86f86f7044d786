"""Proofs and comparisons that a user can run on their own machine and model."""
