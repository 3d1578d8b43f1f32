"""Static events: values by field name, or what a task does -> the records of the events that report it.

Start with `emission`.
"""
