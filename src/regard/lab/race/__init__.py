"""The race: recurrence against attention, each question of the lectures answered by runs of our own models."""
