"""From files of text to batches of numbers, without ever holding a corpus in memory.

Read in the order of the work: `corpus` (rows of text, out of `lines`, `conll` and `squad`), `report` (what to know
before training), `shards` (rows of ids on disk), `shuffle` and `batches` (which rows make a step), `pairs` (tensors).
Apart from these stand `catalogue` (what is public and where) and `download` (one file, whole or not at all).
"""
