"""The rules of purge and sweep, each once: readers, targets, replay windows, guards, last copies.

Pure functions over tables, a row per partition, without I/O. The analysis, planning, the re-check
before sending, the what-if and the simulation of policies all call them; it imports none of these.
"""
