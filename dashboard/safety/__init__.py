"""The rules of a purge, each once: group memory, readers, targets, replay windows, guards.

Pure functions over tables, a row per partition, without I/O. The analysis, planning, the re-check
before sending, the what-if and the simulation of policies all call them; it imports none of these.
"""
