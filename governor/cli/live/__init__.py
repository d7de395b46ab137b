"""`governor top`: a table that lives in the terminal.

Only `terminal` and `loop` touch one: `keys`, `view` and `painting` are functions of what they are given.
"""
