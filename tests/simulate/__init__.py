"""The engine in a world of chance: clients, a network that loses, a daemon that dies and is stopped, and a store.

Everything that happens follows from one number, the seed. `python -m tests.simulate` runs many of them.
"""
