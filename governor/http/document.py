"""The status page as it is sent: one file, and the headers that say what it may do.

It knows the file and a browser's rules. It must never know what the page shows.

The page may run its own script and style and ask its own origin, and nothing else: each is named by its hash. Nor may
any text become HTML in it (``require-trusted-types-for``), or another page put it in a frame.
"""

import re
from base64 import b64encode
from hashlib import sha256
from pathlib import Path
from typing import Final

# Read when this is imported: later, the file would be read in the event loop.
PAGE: Final = Path(__file__).with_name("page.html").read_bytes()
# Another with each version of the page: one that a browser still has open knows by it that it is out of date.
PAGE_HASH: Final = sha256(PAGE).hexdigest()[:12]


def _hashes(tag: bytes) -> str:
    """What the content of each such element in the page is known by."""
    contents = re.findall(rb"<%b>(.*?)</%b>" % (tag, tag), PAGE, re.DOTALL)
    return " ".join(f"'sha256-{b64encode(sha256(content).digest()).decode()}'" for content in contents)


_POLICY: Final = "; ".join(
    (
        "default-src 'none'",
        f"script-src {_hashes(b'script')}",
        f"style-src {_hashes(b'style')}",
        "connect-src 'self'",
        "img-src data:",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
        "require-trusted-types-for 'script'",
        "trusted-types 'none'",
    )
)

PAGE_HEADERS: Final = {
    "Content-Security-Policy": _POLICY,
    "Cross-Origin-Opener-Policy": "same-origin",
    "Vary": "Accept",
}
