"""The certificate of a daemon's ports as gRPC takes it: asked for at each handshake, in a thread of gRPC's.

It knows gRPC. It must never know files: see `governor.certificates`.
"""

from collections.abc import Callable

import grpc

from governor.certificates import Certificates, Shown


def credentials(certificates: Certificates) -> grpc.ServerCredentials:
    """What one port is bound with."""
    first = certificates.now()
    return grpc.dynamic_ssl_server_credentials(
        _told(first),
        changed(certificates, first),  # type: ignore[arg-type] # None is "as before", says gRPC's own description
        require_client_authentication=first.authorities is not None,
    )


def changed(certificates: Certificates, shown: Shown) -> Callable[[], grpc.ServerCertificateConfiguration | None]:
    """What says what a port that shows this is to show from now on; None: as before."""

    def look() -> grpc.ServerCertificateConfiguration | None:
        nonlocal shown
        now = certificates.now()
        if now is shown:
            return None
        shown = now
        return _told(now)

    return look


def _told(shown: Shown) -> grpc.ServerCertificateConfiguration:
    return grpc.ssl_server_certificate_configuration([(shown.key, shown.cert)], root_certificates=shown.authorities)
