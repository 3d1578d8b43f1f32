"""Profiles of kernels that are known only from documents: no code.

tools/old_kernels/document_profiles.py writes them.  Their fact `document` names the document, `made_up` what it
doesn't tell.  They are opened by their year; programs that ask all kernels leave them out.
"""
