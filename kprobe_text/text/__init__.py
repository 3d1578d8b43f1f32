"""Trace text -> typed records: ``Parser`` for a stream, ``parse`` for a whole trace.

Uses nothing but the standard library: text from anywhere can be read.  Start with `records`, then `parser`.
"""

from kprobe_text.text.descriptions import defined_name
from kprobe_text.text.entries import Count, parse, stated
from kprobe_text.text.format import Format, FormatField, parse_format
from kprobe_text.text.parser import Parser
from kprobe_text.text.records import (
    FAULT,
    Bare,
    BareMarker,
    BareRawMarker,
    BareStack,
    BufferStarted,
    Call,
    CodeAddress,
    Coded,
    Comment,
    Event,
    Fault,
    Function,
    Header,
    Lost,
    Marker,
    RawMarker,
    Record,
    StackTrace,
    Switch,
    Unnamed,
    Unparsed,
    Value,
)

__all__ = [
    "FAULT",
    "Bare",
    "BareMarker",
    "BareRawMarker",
    "BareStack",
    "BufferStarted",
    "Call",
    "CodeAddress",
    "Coded",
    "Comment",
    "Count",
    "Event",
    "Fault",
    "Format",
    "FormatField",
    "Function",
    "Header",
    "Lost",
    "Marker",
    "Parser",
    "RawMarker",
    "Record",
    "StackTrace",
    "Switch",
    "Unnamed",
    "Unparsed",
    "Value",
    "defined_name",
    "parse",
    "parse_format",
    "stated",
]
