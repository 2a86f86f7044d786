import time, pytest
from regard.text.explain import explain
from regard.text.train import *
from regard.text.load import load
import sys
def check(tok, lines):
    t=time.time()
    for l in lines:
        e=explain(tok,l)
        assert [t for w in e.words for t in w.tokens]==tok.encode(l,special=False).tokens, l
    return time.time()-t
def test_real(any_kind, lines):
    print(any_kind, check(any_kind, lines))
@pytest.mark.parametrize("kind",["bpe","byte-bpe","unigram","wordpiece","word","char"])
@pytest.mark.parametrize("purpose",["translation","masked","causal"])
@pytest.mark.parametrize("fb",[True,False])
def test_tr(kind,purpose,fb,lines):
    t0=time.time()
    tok=train(iter(lines),TokenizerConfig(kind=kind,vocab_size=1500,byte_fallback=fb),purpose=purpose)
    t1=time.time()-t0
    print(kind,purpose,fb,tok, t1,check(tok,lines))
    print(tok.encode(lines[8]).tokens)
    import unicodedata
    bad=[l for l in lines if tok.decode(tok.encode(l).ids)!=unicodedata.normalize("NFC",l)]
    print(len(bad), bad[:3])
