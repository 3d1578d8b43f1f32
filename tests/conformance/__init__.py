"""One body for every tracefs: the same literal expectations for the simulator and for real kernels."""
