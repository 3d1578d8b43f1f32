"""Static events that fire: values become records, and the actions of tasks become the events that report them.

May use `text` and what is below.  Start with `emission`.
"""
