"""Output made from records: lines of JSON and CSV, latencies, histograms, frequencies, folded stacks.

From a running trace and from files alike.  Start with `figure`; `options` has them by their options.
"""
