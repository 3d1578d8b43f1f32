"""Tests of raw pages and trace.dat."""
