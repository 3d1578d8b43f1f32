"""Asking a kernel the questions of all gates: a tracefs and a workload come in, the values of the gates come out.

`answers` puts all questions, `ask` one of them; `explained` tells programs that compare kernels what each gate is
about.  A kernel's start reads none of this.  The questions themselves stand by their gates, in `builds.gates`.
"""
