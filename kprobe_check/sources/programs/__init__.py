"""Programs: a text in Python, Go, C, C++, Rust or Perl comes in, and the statements that it writes go out.

Start with `python`, which needs nothing but the standard library, or `compiled`, which needs the extra [check].
"""
