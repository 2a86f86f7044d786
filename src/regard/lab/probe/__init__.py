"""What a model prefers, obeys and cannot do: import the files themselves."""
