"""The examples in the docstrings of what programs import, with a daemon to speak to."""

import doctest
import importlib
import inspect
import pkgutil

import pytest

import governor.client
from governor.client import AsyncClient, Client, farewell
from governor.testing import Daemon
from tests.e2e.process import BOUND

CONFIG = """
pools: {orders-db: {members: {primary: {endpoint: "db1:5432", max_leases: 10}}}}
rate_limits: {payments-api: {rate: 1000/s, burst: 100}}
"""
MODULES = sorted(module.name for module in pkgutil.iter_modules(governor.client.__path__, "governor.client."))


@pytest.mark.parametrize("name", MODULES)
def test_the_examples_are_true(name: str) -> None:
    """Each is run as it stands; ``gov`` and ``agov`` are clients, ``connect`` is the program's."""
    module = importlib.import_module(name)
    with Daemon(CONFIG) as daemon, Client(daemon.address) as gov:
        names = {"gov": gov, "agov": AsyncClient(daemon.address), "connect": _connect}
        assert doctest.testmod(module, extraglobs=names).failed == 0
        daemon.wait_until(lambda seen: seen.leases == 0)
    for each in list(farewell.links):  # an example need not show how to close
        thread = each.leave()
        if thread is not None:
            thread.join(BOUND)


def _connect(endpoint: str) -> None:
    assert endpoint == "db1:5432"


def test_whatever_is_public_and_takes_arguments_has_an_example() -> None:
    """It, or the class that it is of."""
    finder = doctest.DocTestFinder()
    for name in governor.client.__all__:
        public = getattr(governor.client, name)
        module = inspect.getmodule(public)
        found = {each.name: each for each in finder.find(public, name, module=module)}
        assert name in {"AsyncLease", "Member", "GovernorError"} or found[name].examples, name
    for kind in (Client, AsyncClient):
        for method in ("try_acquire", "adopt", "limit"):
            assert ">>>" in (getattr(kind, method).__doc__ or ""), method
