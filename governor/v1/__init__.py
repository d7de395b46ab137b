"""The wire contract in Python, generated from ``proto/governor/v1`` by ``make proto``; never edited by hand."""
