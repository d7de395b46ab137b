"""Faults: real daemons under load that are killed, stopped, cut off and starved, and what their clients saw of it.

Every client is a process that writes down what it asked and what it was told; `tests.history` judges that, and nothing
else. Whoever breaks things knows a seed, and the same seed breaks the same things in the same order, as far as real
processes allow.
"""
