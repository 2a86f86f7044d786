"""Text to ids and back: tokenizers of every kind behind one class. Nothing here imports torch.

Read `tokenizer.py` first, then `load.py`; each other file reads one kind of vocabulary.
"""
