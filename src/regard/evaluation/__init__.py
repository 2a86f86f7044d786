"""Scores as pure functions, equal to the field's own definitions."""
