"""Traces of many kernels, each with its true contents, for testing parsers of trace text: `kprobe corpus`.

    from kprobe.corpus import entries
    for entry in entries(kernels=["6.*"], scenarios=["02_comms"]):
        entry.text, entry.truth(), entry.formats, entry.definitions, entry.about

Uses nothing but `kprobe.tracefs.installed`.  Start with `entry`, then `corpora`.
"""

from kprobe.corpus.corpora import Corpus, corpora, entries
from kprobe.corpus.entry import CorpusError, Entry

__all__ = ["Corpus", "CorpusError", "Entry", "corpora", "entries"]
