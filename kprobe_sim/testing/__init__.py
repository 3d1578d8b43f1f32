"""Support for pytest runs, besides the plugin: machines to test on, restored between tests, and reports about them.

May use everything below.  Start with `machines`.
"""
