"""The families of metrics: the name, type and meaning of each.

It knows what every number means to whoever reads it. It must never know where a number comes from.
"""

from typing import Final

from governor.metrics.text import Family

_RESOURCE: Final = ("resource", "kind")

PERMITS_LIMIT: Final = Family(
    "governor_permits_limit",
    "gauge",
    _RESOURCE,
    "Permits there are in all; +Inf is unlimited. Of a rate limit: the most that can be had at once.",
)
PERMITS_IN_USE: Final = Family(
    "governor_permits_in_use",
    "gauge",
    _RESOURCE,
    "Permits lent now. A rate limit has none: its permits are spent, not lent.",
)
PERMITS_OVER_LIMIT: Final = Family(
    "governor_permits_over_limit",
    "gauge",
    _RESOURCE,
    "Permits lent beyond a limit that has shrunk since; they come back as their leases end.",
)
RATE_LIMIT_AVAILABLE: Final = Family(
    "governor_rate_limit_available",
    "gauge",
    _RESOURCE,
    "Permits of a rate limit that could be had at once now; +Inf is unlimited.",
)
LEASES: Final = Family(
    "governor_leases",
    "gauge",
    _RESOURCE,
    "Live leases. One that covers several resources counts under each of them.",
)
WAITERS: Final = Family(
    "governor_waiters",
    "gauge",
    _RESOURCE,
    "Asks that stand in line now. One that claims several resources counts under each of them.",
)
WAITERS_LIMIT: Final = Family(
    "governor_waiters_limit",
    "gauge",
    _RESOURCE,
    "Asks that may stand in line at most.",
)
OLDEST_WAITER: Final = Family(
    "governor_oldest_waiter_seconds",
    "gauge",
    _RESOURCE,
    "How long the first in line has waited so far, in seconds; 0 when nobody waits.",
)
PAUSED: Final = Family(
    "governor_paused",
    "gauge",
    _RESOURCE,
    "1 while an operator has paused the resource: new asks are refused, and whoever is in line stays there. Else 0.",
)
DRAINING: Final = Family(
    "governor_draining",
    "gauge",
    _RESOURCE,
    "1 while an operator drains the resource: new asks are refused, and its leases run out. Else 0.",
)
OVERRIDDEN: Final = Family(
    "governor_overridden",
    "gauge",
    _RESOURCE,
    "1 while an operator has set another limit than the declared one for a while, else 0.",
)
POOL_MEMBERS: Final = Family(
    "governor_pool_members",
    "gauge",
    (*_RESOURCE, "state"),
    "Members of a pool by state: with a slot free, lent as often as they may be, or quarantined after a failure.",
)
ACQUIRES: Final = Family(
    "governor_acquires_total",
    "counter",
    (*_RESOURCE, "outcome"),
    "Tickets that ended, by outcome: granted, repeated (a request id that was granted before), abandoned, "
    "or the reason of the refusal. One that claims several resources counts once under each of them.",
)
ACQUIRE_WAIT: Final = Family(
    "governor_acquire_wait_seconds",
    "histogram",
    (*_RESOURCE, "outcome"),
    "How long tickets stood in line until they ended, by outcome, in seconds; 0 did not have to wait. "
    "Repeated ones are left out: their wait is that of the first.",
)
LEASE_ENDS: Final = Family(
    "governor_lease_ends_total",
    "counter",
    (*_RESOURCE, "reason"),
    "Leases that ended, by reason.",
)
HOLD: Final = Family(
    "governor_hold_seconds",
    "histogram",
    _RESOURCE,
    "How long leases lasted until they ended, in seconds.",
)
LEASE_MARGIN: Final = Family(
    "governor_lease_margin_seconds",
    "histogram",
    _RESOURCE,
    "How much of a lease was left when it was renewed or released, in seconds; near 0 is a close shave.",
)
LEASE_EXPIRY_LAG: Final = Family(
    "governor_lease_expiry_lag_seconds",
    "histogram",
    _RESOURCE,
    "How late after its deadline an expired lease was ended, in seconds.",
)
CLIENT_LEASES: Final = Family(
    "governor_client_leases",
    "gauge",
    ("client",),
    "Live leases of a client. One that covers several resources counts once.",
)
CLIENT_ACQUIRES: Final = Family(
    "governor_client_acquires_total",
    "counter",
    ("client", "outcome"),
    "Tickets of a client that ended, by outcome. One that claims several resources counts once.",
)
CLIENT_WAIT: Final = Family(
    "governor_client_wait_seconds_total",
    "counter",
    ("client",),
    "How long tickets of a client stood in line until they ended, in seconds.",
)
CLIENT_LEASE_ENDS: Final = Family(
    "governor_client_lease_ends_total",
    "counter",
    ("client", "reason"),
    "Leases of a client that ended, by reason. One that covers several resources counts once.",
)
CLIENT_HOLD: Final = Family(
    "governor_client_hold_seconds_total",
    "counter",
    ("client",),
    "How long leases of a client lasted until they ended, in seconds.",
)
BUILD_INFO: Final = Family(
    "governor_build_info",
    "info",
    ("version",),
    "The version of governor that runs.",
)
CONFIG_INFO: Final = Family(
    "governor_config_info",
    "info",
    ("hash",),
    "The SHA-256 of the config in force.",
)
CONFIG_LAST_RELOAD_SUCCESSFUL: Final = Family(
    "governor_config_last_reload_successful",
    "gauge",
    (),
    "1 if the config was in order when it was last read; 0 if it was refused and the one before stays in force.",
)
CONFIG_LAST_RELOAD_SUCCESS_TIMESTAMP: Final = Family(
    "governor_config_last_reload_success_timestamp_seconds",
    "gauge",
    (),
    "When a config was last read and found in order, in seconds of Unix time.",
)
DAEMON_DRAINING: Final = Family(
    "governor_daemon_draining",
    "gauge",
    (),
    "1 while the daemon refuses new asks and waits for its leases to end, else 0.",
)
EVENT_LOOP_LAG: Final = Family(
    "governor_event_loop_lag_seconds",
    "histogram",
    (),
    "How late the engine was woken for what was due, in seconds. An idle daemon wakes for nothing.",
)
STRAY_ACQUIRES: Final = Family(
    "governor_stray_acquires_total",
    "counter",
    ("outcome",),
    "Tickets that claimed no declared resource, by the reason of the refusal. What they did claim is not kept.",
)
LEASE_RELEASES: Final = Family(
    "governor_lease_releases_total",
    "counter",
    ("outcome",),
    "Lease ids that were given back, by outcome: released, ended (too late: the lease was over before) or unknown.",
)
LEASE_RENEWALS: Final = Family(
    "governor_lease_renewals_total",
    "counter",
    ("outcome",),
    "Lease ids that were to be renewed, by outcome: renewed, ended (too late), unknown, or refused for the "
    "length asked.",
)
FREEZES: Final = Family(
    "governor_pauses_seconds_total",
    "counter",
    (),
    "How long the daemon did not run at all while it should have, in seconds: stopped, frozen or blocked.",
)
STORE_WRITE: Final = Family(
    "governor_store_write_seconds",
    "histogram",
    (),
    "How long it took to put changes on record, one transaction each, in seconds.",
)
STORE_ERRORS: Final = Family(
    "governor_store_errors_total",
    "counter",
    (),
    "Failures to write the state.",
)
STORE_WRITABLE: Final = Family(
    "governor_store_writable",
    "gauge",
    (),
    "1 if the state could be written when that was last tried, else 0.",
)
AUDIT_DROPPED: Final = Family(
    "governor_audit_dropped_total",
    "counter",
    (),
    "Lines that are missing in the audit file, since it did not take them in time.",
)
AUDIT_WRITE_ERRORS: Final = Family(
    "governor_audit_write_errors_total",
    "counter",
    (),
    "Failures to write the audit file, to begin a new one or to open it anew.",
)
BOUNDS_REACHED: Final = Family(
    "governor_bounds_reached_total",
    "counter",
    ("bound",),
    "How often a client was refused or cut off for taking more of the daemon itself than it may, by bound: sessions, "
    "sessions_per_client, http_connections, or unread (answers that lie unread).",
)
CERTIFICATE_IN_ORDER: Final = Family(
    "governor_tls_last_reload_successful",
    "gauge",
    (),
    "1 if the certificate of tls:// addresses was in order when its files last changed; 0 if it was not, and the one "
    "before is still shown. Absent without tls.",
)
CERTIFICATE_NOT_BEFORE: Final = Family(
    "governor_tls_certificate_not_before_timestamp_seconds",
    "gauge",
    (),
    "From when the certificate counts that is shown at tls:// addresses, and those that it was made with, in seconds "
    "of Unix time. Absent without tls.",
)
CERTIFICATE_NOT_AFTER: Final = Family(
    "governor_tls_certificate_not_after_timestamp_seconds",
    "gauge",
    (),
    "Until when they count, in seconds of Unix time. Absent without tls.",
)
CALLERS_REFUSED: Final = Family(
    "governor_callers_refused_total",
    "counter",
    ("reason",),
    "Calls and asks that their caller may not make, where the config has clients, by reason: unauthenticated, "
    "permission_denied, or client_limit (more, or more often, than it may).",
)
SPANS_EXPORTED: Final = Family(
    "governor_spans_exported_total",
    "counter",
    (),
    "Spans that the collector has taken, where the daemon traces.",
)
SPANS_DROPPED: Final = Family(
    "governor_spans_dropped_total",
    "counter",
    ("reason",),
    "Spans that were not exported, by reason: queue_full (more came than go out), refused (the collector did not take "
    "them, or is away), ending (the daemon ended first), or too_many_holds (as many are traced as may be).",
)

# Every family of the daemon's own.
ALL: Final = tuple(value for value in dict(globals()).values() if isinstance(value, Family))
