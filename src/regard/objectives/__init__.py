"""What a model is trained for. An objective takes a model and a batch and returns a sum and a count."""
