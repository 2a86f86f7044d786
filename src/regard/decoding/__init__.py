"""Writing token by token. A search gets a step function and a state; it knows no model."""
