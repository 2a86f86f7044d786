"""Looking inside: what a model is made of and what it does."""
