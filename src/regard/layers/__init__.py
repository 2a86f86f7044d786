"""The parts: figure 1 of "Attention Is All You Need", one concept per file.

Start with attention.py. One legend serves every shape comment in this package:

    B batch · T query length · S key length · D d_model · H heads · G key/value heads · K d_head · V vocabulary
"""
