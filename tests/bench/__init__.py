"""Benchmarks: what governor costs, beside what it may cost. Run by `make bench`, never by `make test`.

The numbers depend on the machine and on what else it does, so none of them may fail a test. A missed target is an exit
code of 1 here, and a line that says MISS.
"""
