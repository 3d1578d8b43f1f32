"""What is written to the kernel's files -> values, filters and code that fetches arguments, or a refusal with a caret.

Start with `primitives`, then `filters` and `fetch`.
"""
