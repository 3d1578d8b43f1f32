"""Records of a running trace or of files -> lines of JSON and CSV, latencies, histograms, frequencies, folded stacks.

Start with `figure`; `options` lists the figures by their options.
"""
