"""Text in, result out: a model, its tokenizer and the way between them. The command line and the page call these."""
