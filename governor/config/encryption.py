"""The section ``tls``: the files by which a daemon proves who it is, and by which its clients do.

It knows its keys. It must never read those files: that is for whoever listens.
"""

from pathlib import Path
from typing import Annotated, ClassVar

from pydantic import Field

from governor.config.declared import Declared
from governor.config.values import PATH
from governor.tls import Tls


class TlsSection(Declared):
    """What is shown, and asked for, at the tls:// addresses of listen and admin."""

    shape: ClassVar[str] = "a mapping such as {cert: tls.crt, key: tls.key}"

    cert: Annotated[
        Path,
        PATH,
        Field(
            description="The certificate of the daemon and those that it was made with, in PEM. It is read anew as "
            "soon as it changes, and so are the other files.",
            examples=["/etc/governor/tls.crt"],
        ),
    ]
    key: Annotated[Path, PATH, Field(description="Its key, in PEM and without a password.")]
    client_ca: Annotated[
        Path | None,
        PATH,
        Field(
            description="Who must have certified whoever connects, in PEM. Not written: nobody is asked.",
            examples=["/etc/governor/clients.crt"],
        ),
    ] = None

    def tls(self) -> Tls:
        """The files."""
        return Tls(self.cert, self.key, self.client_ca)
