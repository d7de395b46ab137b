"""The service Admin: what operators see, and how they step in.

It knows how their orders reach the driver, and where they are served. It must never decide about a permit.
"""

from governor.rpc.admin.desk import About, Desk
from governor.rpc.admin.service import ADMIN, AdminService
from governor.rpc.admin.where import INSTEAD, Where, anybody, nobody, unix_only, where

__all__ = [
    "ADMIN",
    "INSTEAD",
    "About",
    "AdminService",
    "Desk",
    "Where",
    "anybody",
    "nobody",
    "unix_only",
    "where",
]
