"""What runs of pytest need around the plugin: the machines they test on, put back between tests, and reports of them.

May use everything below.  Start with `machines`.
"""
