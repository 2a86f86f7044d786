"""The small models that come with the package, a folder each, with its card."""
