"""A program that borrows by single calls over gRPC, each under a request id, until it is told to end.

It knows what any client must do without the library: it asks again when no answer comes, renews in time, and repeats a
release until somebody has heard it. It must never know that anything is broken.
"""

import signal
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from random import Random
from typing import Final

import grpc
from grpc import StatusCode

from governor.v1 import governor_pb2 as pb
from governor.v1.governor_pb2_grpc import GovernorStub
from tests.e2e.client import Refusal, seconds
from tests.faults.declared import CLAIMS, SECOND
from tests.faults.diary import Diary
from tests.faults.waiting import join
from tests.history.log import GRANTED, RELEASED, RENEWED, Call

_WORKERS: Final = 3
_TRIES: Final = 8
_PAUSE: Final = 0.05
# Seconds that an answer may take beyond what the call waits for.
_PATIENCE: Final = 1.0
_OPTIONS: Final = (
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.initial_reconnect_backoff_ms", 50),
    ("grpc.min_reconnect_backoff_ms", 200),
    ("grpc.max_reconnect_backoff_ms", 200),
)
_STATES: Final = {StatusCode.NOT_FOUND: "unknown", StatusCode.FAILED_PRECONDITION: "ended"}


class Worker:
    """One thread, with a connection and request ids of its own."""

    def __init__(self, address: str, diary: Diary, seed: str, stop: threading.Event) -> None:
        self._channel = grpc.insecure_channel(address, _OPTIONS)
        self._stub = GovernorStub(self._channel)
        self._diary = diary
        self._seed = seed
        self._chance = Random(seed)
        self._stop = stop
        self._asks = 0

    def run(self) -> None:
        """Borrow, work, give back."""
        chance = self._chance
        with self._channel:
            while not self._stop.is_set():
                request = self._wish()
                call = self._insist(request)
                if call.result != GRANTED or call.remaining is None or call.lease is None:
                    self._stop.wait(_PAUSE)
                    continue
                alive = self._work(call.lease, call.remaining / SECOND, request)
                if alive and (chance.random() < 0.9 or self._stop.is_set()):
                    self._give_back(call.lease)

    # --- deeds ----------------------------------------------------------------------------------------------------

    def _wish(self) -> pb.AcquireRequest:
        chance = self._chance
        claims = chance.choices([claims for claims, _ in CLAIMS], [weight for _, weight in CLAIMS])[0]
        self._asks += 1
        return pb.AcquireRequest(
            claims=[pb.Claim(resource=name, permits=permits) for name, permits in claims.items()],
            client=self._diary.client,
            request_id=f"{self._seed}-{self._asks}",
            wait=seconds(chance.choice((0, 0.3, 2))),
            lease=seconds(chance.choice((0.5, 2, 4))),
        )

    def _insist(self, request: pb.AcquireRequest) -> Call:
        """Ask until there is an answer, or long enough; the last call."""
        if self._chance.random() < 0.1:
            with ThreadPoolExecutor(1) as other:
                other.submit(self._acquire, request)
                call = self._acquire(request)
        else:
            call = self._acquire(request)
        tries = 1
        while call.answered is None and tries < _TRIES:
            time.sleep(_PAUSE)
            call = self._acquire(request)
            tries += 1
        return call

    def _work(self, lease: int, length: float, request: pb.AcquireRequest) -> bool:
        """Hold it, for less or more than its time; whether anybody still thinks that it lives."""
        chance = self._chance
        renews = chance.random() < 0.6
        left = length * chance.choice((0.01, 0.1, 0.5, 0.9, 3 if renews else 1.1))
        while left > length / 4:
            self._stop.wait(length / 4)
            left -= length / 4
            if chance.random() < 0.1:
                self._acquire(request)
            if renews and self._renew(lease).result in {"unknown", "ended"}:
                return False
            if self._stop.is_set():
                return True
        self._stop.wait(left)
        return True

    def _give_back(self, lease: int) -> None:
        for _ in range(_TRIES):
            if self._release(lease).answered is not None:
                return
            time.sleep(_PAUSE)

    # --- calls ----------------------------------------------------------------------------------------------------

    def _acquire(self, request: pb.AcquireRequest) -> Call:
        call = self._diary.begin("acquire")
        call.request_id = request.request_id
        call.claims = {claim.resource: claim.permits for claim in request.claims}
        try:
            lease = self._stub.Acquire(request, timeout=request.wait.ToNanoseconds() / SECOND + _PATIENCE).lease
        except grpc.RpcError as error:
            if reason := Refusal(error).reason:
                call.answered, call.result = time.monotonic_ns(), reason.lower()
        else:
            call.answered, call.result, call.lease = time.monotonic_ns(), GRANTED, lease.id
            call.remaining = lease.remaining.ToNanoseconds() if lease.HasField("remaining") else None
            call.members = {
                grant.resource: [member.id for member in grant.members] for grant in lease.grants if grant.members
            }
        self._diary.write(call)
        return call

    def _renew(self, lease: int) -> Call:
        call = self._diary.begin("renew", lease=lease)
        try:
            result = self._stub.Renew(pb.RenewRequest(lease_ids=[lease]), timeout=_PATIENCE).results[0]
        except grpc.RpcError as error:
            self._told(call, error)
        else:
            call.answered, call.result = time.monotonic_ns(), RENEWED
            call.remaining = result.remaining.ToNanoseconds()
        self._diary.write(call)
        return call

    def _release(self, lease: int) -> Call:
        call = self._diary.begin("release", lease=lease)
        self._diary.write(call)  # whatever becomes of us now, it may have been given back
        outcome = self._chance.choice((pb.OUTCOME_OK, pb.OUTCOME_OK, pb.OUTCOME_BROKEN))
        try:
            self._stub.Release(pb.ReleaseRequest(lease_ids=[lease], outcome=outcome), timeout=_PATIENCE)
        except grpc.RpcError as error:
            self._told(call, error)
        else:
            call.answered, call.result = time.monotonic_ns(), RELEASED
        self._diary.write(call)
        return call

    def _told(self, call: Call, error: grpc.RpcError) -> None:
        refusal = Refusal(error)
        if refusal.reason and refusal.code in _STATES:
            call.answered, call.result = time.monotonic_ns(), _STATES[refusal.code]


def main(address: str, name: str, path: str, seed: str) -> None:
    """``path`` is that of the diary."""
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    with Diary(Path(path), name) as diary:
        workers = [Worker(address, diary, f"{seed}-{number}", stop) for number in range(_WORKERS)]
        threads = [threading.Thread(target=worker.run) for worker in workers]
        for thread in threads:
            thread.start()
        join(threads)


if __name__ == "__main__":
    main(*sys.argv[1:])
