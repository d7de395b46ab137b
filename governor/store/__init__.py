"""Store: what is, durably: every live lease, what each resource remembers, how high lease ids may have risen.

It knows a SQLite file and its rows. It must never know who asks, nor decide anything about permits. In one sentence: a
transaction was written whole or not at all, and a file that cannot be read is never replaced.

It holds state, not a log: what came and went leaves nothing behind, so the file is as large as what is held.
"""

from governor.store.batch import Batch
from governor.store.database import NAME, Store
from governor.store.errors import StoreError
from governor.store.rows import LeaseRow, Stored

__all__ = ["NAME", "Batch", "LeaseRow", "Store", "StoreError", "Stored"]
