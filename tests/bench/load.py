"""h2load: the load generator of nghttp2, whose C leaves the processor to the server.

It knows how to run it and read what it says. It must never know what a call means: h2load itself sees HTTP alone, so
whoever calls this makes sure of what became of the calls.
"""

import re
import shutil
import subprocess
from pathlib import Path
from typing import Final

_RATE: Final = re.compile(r"finished in [^,]+, ([\d.]+) req/s")
_ANSWERED: Final = re.compile(r"status codes: (\d+) 2xx")


def find() -> str:
    """Where h2load is. Raises SystemExit, with the way to get it, when it is nowhere."""
    path = shutil.which("h2load")
    if path is None:
        raise SystemExit("this measurement needs h2load on PATH; on Debian: apt-get install nghttp2-client")
    return path


def drive(url: str, message: bytes, folder: Path, *, connections: int, streams: int, calls: int) -> float:
    """Send ``message`` so many times in all; calls a second."""
    body = folder / "body"
    body.write_bytes(b"\0" + len(message).to_bytes(4, "big") + message)
    command = [find(), f"--clients={connections}", f"--max-concurrent-streams={streams}", f"--requests={calls}"]
    command += ["--header=content-type: application/grpc", "--header=te: trailers", f"--data={body}", url]
    said = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120).stdout
    rate, answered = _RATE.search(said), _ANSWERED.search(said)
    assert rate is not None, said
    assert answered is not None, said
    assert int(answered[1]) == calls, said
    return float(rate[1])
