"""Points of a sweep evaluated: in this process, in those of this machine, on a cluster."""
