"""One body for every tracefs: these tests run on the simulator and on real kernels, with the same literal expectations."""
