"""Takes a kernel; gives a guest's trace text as entries of the corpus: a known activity under all options, with its
truth.

The truth is what the activity did and what the raw pages of the ring buffer hold, never the text.  `pages` decodes them
with no code of kprobe_text, on purpose: a mistake of one reader can't hide in the other.  Uses `guest`, `machine` and
all below them.  Start with `recording`; `check` compares with a corpus that is there.
"""
