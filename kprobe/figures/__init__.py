"""What is made of records: lines of JSON and CSV, latencies, histograms, frequencies, folded stacks.

Of a trace as it comes and of files alike.  Start with `figure`; `options` has them by their options.
"""
