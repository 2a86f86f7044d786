"""The web page and its server: what tasks and inspection do, over HTTP."""
