"""From files of text to batches of numbers, without ever holding a corpus in memory.

Read in the order of the work: `corpus` (rows of text, out of `lines`, `conll` and `squad`), `report` (what to know
before training), `examples` (rows to numbers), `shards` (numbers on disk), `shuffle` and `batches` (which rows make a
step), and what each task makes of them: `pairs`, `labelled`, `tagged`, `answered`, `masked`, `language`.
For models that read a text whole there are `inputs`, `words`, `windows` and `spans`; for vectors `vectors` (to files)
and `nearest` (to search them). Apart from these stand `catalogue` (what is public and where) and `download` (one file,
whole or not at all).
"""
