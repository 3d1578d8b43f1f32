"""A recorded build -> the machine that its kernel runs on: clock, tasks, memory, files and log.

Start with `simulated`: the rooms above are handed its `SimulatedMachine`.
"""
