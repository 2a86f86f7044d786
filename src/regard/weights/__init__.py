"""The translations: from Hugging Face directories and GGUF files to our models and back.

A layout is data: a table of configuration keys and a table of tensor names (layouts/*.toml). keymap.py
and layout.py read the tables in both directions, so what can be opened can be saved.
"""
