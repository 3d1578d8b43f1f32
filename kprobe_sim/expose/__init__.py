"""Ways to show the simulated tracefs to code: in-process so far."""
