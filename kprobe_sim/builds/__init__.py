"""A kernel build: the files recorded from it come in, what a simulated kernel knows about the real one comes out.

`profile` opens a build: its facts, files, symbols and C types.  `gates` has the rules that differ between kernels, and
`questions` asks a kernel for their values.  But for `questions`, the room uses nothing but the standard library.
"""
