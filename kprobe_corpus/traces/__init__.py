"""Installed archives come in, and traces of many kernels go out, each with its truth: `kprobe corpus`.

    from kprobe_corpus.traces import entries
    for entry in entries(kernels=["6.*"], scenarios=["02_comms"]):
        entry.text, entry.truth(), entry.formats, entry.definitions, entry.about

Start with `entry`, then `corpora`.
"""

from kprobe_corpus.traces.corpora import Corpus, corpora, entries
from kprobe_corpus.traces.entry import CorpusError, Entry

__all__ = ["Corpus", "CorpusError", "Entry", "corpora", "entries"]
