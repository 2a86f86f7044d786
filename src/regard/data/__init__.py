"""From files of text to batches of numbers, without ever holding a corpus in memory.

Read in the order of the work: `corpus` (rows of text), `report` (what to know before training),
`shards` (rows of ids on disk), `shuffle` and `batches` (which rows make a step), `pairs` (tensors).
For models that read a text whole there are `inputs`, for vectors `vectors` (to files) and `nearest` (to search them).
Apart from these stand `catalogue` (what is public and where) and `download` (one file, whole or not at all).
"""
