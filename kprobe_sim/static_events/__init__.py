"""Static events that fire: values become records, and what tasks do becomes the events that report it.

May use `text` and what is below.  Start with `emission`.
"""
