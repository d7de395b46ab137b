"""One resource looked at: three calls that belong together.

It knows which. It must never know what is made of the answers.
"""

from typing import TYPE_CHECKING

from governor.cli.about import About
from governor.v1.admin_pb2 import GetResourceRequest, ListLeasesRequest, ListWaitersRequest

if TYPE_CHECKING:
    from governor.cli.admin import Admin


def look(admin: "Admin", name: str, limit: int) -> About:
    """The resource, and so many of its leases and of its waiters. Raises CommandError."""
    answer = admin.ask(lambda stub: stub.GetResource, GetResourceRequest(resource=name))
    leases = ListLeasesRequest(resource=name, limit=limit)
    waiters = ListWaitersRequest(resource=name, limit=limit)
    return About(
        answer,
        [each for part in admin.listed(lambda stub: stub.ListLeases, leases) for each in part.leases],
        [each for part in admin.listed(lambda stub: stub.ListWaiters, waiters) for each in part.waiters],
    )
