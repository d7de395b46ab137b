"""A program where nothing is installed but what the client needs: it imports, acquires, and says what it had to load.

Everything that only the daemon needs is hidden, as if it were not installed.
"""

import asyncio
import os
import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

HIDDEN = frozenset(
    {
        "aiohttp",
        "click",
        "google.rpc",
        "grpc",
        "grpc_health",
        "grpc_reflection",
        "grpc_status",
        "prometheus_client",
        "pydantic",
        "rich",
        "yaml",
    }
)


class Hide(MetaPathFinder):
    """Finds nothing of it."""

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        """As the import system asks."""
        if name in HIDDEN or name.partition(".")[0] in HIDDEN:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
        return None


def main() -> None:
    """With the address from the environment."""
    sys.meta_path.insert(0, Hide())
    import governor  # noqa: PLC0415 - when that is hidden

    with governor.Client() as gov, gov.acquire("one") as lease:
        print(lease.id > 0, gov.address == os.environ["GOVERNOR_ADDRESS"])  # noqa: T201 - it is asked

    async def work() -> None:
        async with governor.AsyncClient() as gov, gov.acquire("one", wait=5):
            pass

    asyncio.run(work())
    ours = {name.partition(".")[0] for name in sys.modules} - set(sys.stdlib_module_names)
    print(*sorted(name for name in ours if not name.startswith("_")))  # noqa: T201
    print(*sorted(name for name in sys.modules if name.startswith("governor.")))  # noqa: T201


if __name__ == "__main__":
    main()
