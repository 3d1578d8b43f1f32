"""Profiles of kernels that are known only from documents: no code.

tools/old_kernels/document_profiles.py writes them; `document` in their facts says of which, `made_up` what it doesn't tell.  They
are opened by their year, and what asks all kernels leaves them out.
"""
