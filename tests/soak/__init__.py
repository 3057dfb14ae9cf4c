"""An hour of the demo under faults and purges, judged at its end: `make soak`."""
