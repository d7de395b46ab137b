"""Stories of a minute a step: what Prometheus scrapes, and which alerts fire when."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

HERE: Final = 'job="g",instance="a"'
JOBS: Final = f'{HERE},resource="jobs",kind="semaphore"'
DB: Final = f'{HERE},resource="db",kind="pool"'
API: Final = f'{HERE},resource="api",kind="rate_limit"'


@dataclass(frozen=True)
class Scenario:
    """``series``: what there is besides a daemon in good order. ``fires``: which alerts do, by minute."""

    name: str
    series: Mapping[str, str]
    fires: Mapping[int, tuple[str, ...]]


def _of(resource: str, **metrics: str) -> dict[str, str]:
    return {f"governor_{name}{{{resource}}}": values for name, values in metrics.items()}


def _acquires(resource: str, **outcomes: str) -> dict[str, str]:
    return {f'governor_acquires_total{{{resource},outcome="{name}"}}': values for name, values in outcomes.items()}


def _members(free: str, lent: str, quarantined: str) -> dict[str, str]:
    states = {"free": free, "lent": lent, "quarantined": quarantined}
    return {f'governor_pool_members{{{DB},state="{state}"}}': values for state, values in states.items()}


# A daemon that works, beside every story: none of this may ever alert.
HEALTHY: Final[dict[str, str]] = {
    'up{job="g",instance="fine"}': "1x200",
    'governor_build_info{job="g",instance="fine",version="1"}': "1x200",
    'governor_config_last_reload_successful{job="g",instance="fine"}': "1x200",
    'governor_store_writable{job="g",instance="fine"}': "1x200",
    'governor_store_errors_total{job="g",instance="fine"}': "3x200",
    'governor_pauses_seconds_total{job="g",instance="fine"}': "7x200",
    'governor_audit_dropped_total{job="g",instance="fine"}': "2x200",
    'governor_audit_write_errors_total{job="g",instance="fine"}': "2x200",
    'governor_daemon_draining{job="g",instance="fine"}': "0x200",
    'governor_event_loop_lag_seconds_bucket{job="g",instance="fine",le="0.001"}': "0+60x200",
    'governor_event_loop_lag_seconds_bucket{job="g",instance="fine",le="+Inf"}': "0+60x200",
    'governor_store_write_seconds_bucket{job="g",instance="fine",le="0.001"}': "0+60x200",
    'governor_store_write_seconds_bucket{job="g",instance="fine",le="+Inf"}': "0+60x200",
    'governor_client_lease_ends_total{job="g",instance="fine",client="shop",reason="released"}': "0+60x200",
    'governor_client_lease_ends_total{job="g",instance="fine",client="shop",reason="expired"}': "5x200",
    'governor_tls_last_reload_successful{job="g",instance="fine"}': "1x200",
    # Of a day, that is made anew long before its end.
    'governor_tls_certificate_not_before_timestamp_seconds{job="g",instance="fine"}': "0x200",
    'governor_tls_certificate_not_after_timestamp_seconds{job="g",instance="fine"}': "86400x200",
    'governor_callers_refused_total{job="g",instance="fine",reason="unauthenticated"}': "4x200",
    'governor_callers_refused_total{job="g",instance="fine",reason="client_limit"}': "0+9x200",
    'governor_callers_refused_total{job="g",instance="fine",reason="permission_denied"}': "4x200",
    'governor_bounds_reached_total{job="g",instance="fine",bound="sessions"}': "4x200",
    'governor_spans_dropped_total{job="g",instance="fine",reason="refused"}': "4x200",
    'governor_spans_dropped_total{job="g",instance="fine",reason="ending"}': "0+1x200",
    **{
        f'governor_{metric}{{job="g",instance="fine",resource="jobs",kind="semaphore"}}': f"{value}x200"
        for metric, value in {
            "permits_limit": 4,
            "permits_in_use": 4,
            "permits_over_limit": 0,
            "waiters": 0,
            "leases": 4,
            "paused": 0,
            "draining": 0,
        }.items()
    },
    'governor_acquires_total{job="g",instance="fine",resource="jobs",kind="semaphore",outcome="granted"}': "0+60x200",
    'governor_acquires_total{job="g",instance="fine",resource="jobs",kind="semaphore",outcome="line_full"}': "9x200",
    'governor_acquires_total{job="g",instance="fine",resource="api",kind="rate_limit",outcome="granted"}': "0+99x200",
    'governor_acquires_total{job="g",instance="fine",resource="api",kind="rate_limit",outcome="hopeless"}': "0+1x200",
    'governor_pool_members{job="g",instance="fine",resource="db",kind="pool",state="free"}': "0x200",
    'governor_pool_members{job="g",instance="fine",resource="db",kind="pool",state="lent"}': "3x200",
    'governor_pool_members{job="g",instance="fine",resource="db",kind="pool",state="quarantined"}': "0x200",
}

SCENARIOS: Final = (
    Scenario("nothing is wrong", {}, {0: (), 20: (), 150: ()}),
    Scenario(
        "the daemon goes away, and comes back",
        {f"up{{{HERE}}}": "1x10 0x20 1x20", f'governor_build_info{{{HERE},version="1"}}': "1x10 _x20 1x20"},
        {10: (), 12: (), 14: (f"GovernorDown{{{HERE}}}",), 30: (f"GovernorDown{{{HERE}}}",), 32: ()},
    ),
    Scenario(
        "something else goes away",
        {'up{job="web",instance="b"}': "1x10 0x50"},
        {40: ()},
    ),
    Scenario(
        "a config is refused, and mended",
        {f"governor_config_last_reload_successful{{{HERE}}}": "1x10 0x10 1x20"},
        {14: (), 17: (f"GovernorConfigReloadFailed{{{HERE}}}",), 22: ()},
    ),
    Scenario(
        "the disk is full",
        {f"governor_store_writable{{{HERE}}}": "1x10 0x10 1x30"},
        {10: (), 13: (f"GovernorStoreFailing{{{HERE}}}",), 23: ()},
    ),
    Scenario(
        "a write fails now and then, too shortly to be seen as unwritable",
        {f"governor_store_errors_total{{{HERE}}}": "0x10 1+1x10", f"governor_store_writable{{{HERE}}}": "1x60"},
        {10: (), 14: (f"GovernorStoreFailing{{{HERE}}}",), 50: ()},
    ),
    Scenario(
        "the disk is slow",
        {
            f'governor_store_write_seconds_bucket{{{HERE},le="0.1"}}': "0+90x40",
            f'governor_store_write_seconds_bucket{{{HERE},le="0.3"}}': "0+100x40",
            f'governor_store_write_seconds_bucket{{{HERE},le="+Inf"}}': "0+100x40",
        },
        {5: (), 14: (f"GovernorStoreSlow{{{HERE}}}",)},
    ),
    Scenario(
        "the loop is late",
        {
            f'governor_event_loop_lag_seconds_bucket{{{HERE},le="0.1"}}': "0+90x40",
            f'governor_event_loop_lag_seconds_bucket{{{HERE},le="0.3"}}': "0+100x40",
            f'governor_event_loop_lag_seconds_bucket{{{HERE},le="+Inf"}}': "0+100x40",
        },
        {4: (), 8: (f"GovernorLoopLag{{{HERE}}}",)},
    ),
    Scenario(
        "the daemon was stopped for a minute",
        {f"governor_pauses_seconds_total{{{HERE}}}": "2x10 62x60"},
        {10: (), 13: (f"GovernorFroze{{{HERE}}}",), 30: ()},
    ),
    Scenario(
        "the audit file falls behind, and later cannot be written",
        {
            f"governor_audit_dropped_total{{{HERE}}}": "0x10 40x60",
            f"governor_audit_write_errors_total{{{HERE}}}": "0x40 1x40",
        },
        {
            10: (),
            13: (f"GovernorAuditDropping{{{HERE}}}",),
            30: (),
            43: (f"GovernorAuditDropping{{{HERE}}}",),
            60: (),
        },
    ),
    Scenario(
        "a drain that does not end",
        {f"governor_daemon_draining{{{HERE}}}": "0x10 1x40"},
        {15: (), 17: (f"GovernorDaemonDrainsTooLong{{{HERE}}}",)},
    ),
    Scenario(
        "a certificate of three months is left to end, and made anew",
        {
            f"governor_tls_certificate_not_before_timestamp_seconds{{{HERE}}}": "-6000000x60 3600x20",
            f"governor_tls_certificate_not_after_timestamp_seconds{{{HERE}}}": "1210200x60 8000000x20",
        },
        # Two weeks before its end, after ten minutes, and a quarter of an hour.
        {
            10: (),
            24: (),
            27: (f"GovernorCertificateEndsSoon{{{HERE}}}",),
            60: (f"GovernorCertificateEndsSoon{{{HERE}}}",),
            62: (),
        },
    ),
    Scenario(
        "a certificate of an hour is not made anew",
        {
            f"governor_tls_certificate_not_before_timestamp_seconds{{{HERE}}}": "0x100",
            f"governor_tls_certificate_not_after_timestamp_seconds{{{HERE}}}": "3600x100",
        },
        {
            47: (),
            # From the last fifth of its hour on, and a quarter of an hour would be too late.
            59: (),
            60: (),
            62: (f"GovernorCertificateEnded{{{HERE}}}",),
        },
    ),
    Scenario(
        "a certificate is changed and its key is not",
        {f"governor_tls_last_reload_successful{{{HERE}}}": "1x10 0x10 1x20"},
        {14: (), 17: (f"GovernorCertificateReloadFailed{{{HERE}}}",), 22: ()},
    ),
    Scenario(
        "a program goes on with a token that is gone, and somebody tries a door once",
        {
            f'governor_callers_refused_total{{{HERE},reason="unauthenticated"}}': "0x10 0+3x30 90x30",
            'governor_callers_refused_total{job="g",instance="b",reason="unauthenticated"}': "0x10 1x60",
            f'governor_callers_refused_total{{{HERE},reason="permission_denied"}}': "5x70",
        },
        {
            10: (),
            19: (),
            25: (f'GovernorCallersUnknown{{{HERE},reason="unauthenticated"}}',),
            60: (),
        },
    ),
    Scenario(
        "a program goes on asking for what it may not have, another tried once",
        {
            f'governor_callers_refused_total{{{HERE},reason="permission_denied"}}': "0x10 0+5x30 150x30",
            'governor_callers_refused_total{job="g",instance="b",reason="permission_denied"}': "0x10 1x60",
        },
        {
            10: (),
            19: (),
            25: (f'GovernorCallersDenied{{{HERE},reason="permission_denied"}}',),
            60: (),
        },
    ),
    Scenario(
        "a client at its cap asks twice a second",
        {f'governor_callers_refused_total{{{HERE},reason="client_limit"}}': "0x10 0+120x30 3600x30"},
        {10: (), 19: (), 35: (f'GovernorCallersDenied{{{HERE},reason="client_limit"}}',), 60: ()},
    ),
    Scenario(
        "a client begins ever more sessions, and another did not read once",
        {
            f'governor_bounds_reached_total{{{HERE},bound="sessions_per_client"}}': "0x10 0+2x30 60x30",
            f'governor_bounds_reached_total{{{HERE},bound="unread"}}': "0x10 1x60",
        },
        {10: (), 19: (), 25: (f'GovernorBoundsReached{{{HERE},bound="sessions_per_client"}}',), 60: ()},
    ),
    Scenario(
        "the collector of traces is away, and was once slow for a moment",
        {
            f'governor_spans_dropped_total{{{HERE},reason="refused"}}': "0x10 0+20x30 600x30",
            f'governor_spans_dropped_total{{{HERE},reason="queue_full"}}': "0x10 7x60",
        },
        {10: (), 20: (), 25: (f'GovernorSpansDropping{{{HERE},reason="refused"}}',), 60: ()},
    ),
    Scenario(
        "all is lent and a line moves on",
        _of(JOBS, permits_limit="4x60", permits_in_use="1x10 4x50", waiters="0x10 3x50", paused="0x60")
        | _acquires(JOBS, granted="0+9x60"),
        {20: (), 30: (f"GovernorResourceSaturated{{{JOBS}}}",)},
    ),
    Scenario(
        "all is lent and nobody waits for long",
        _of(JOBS, permits_limit="4x60", permits_in_use="4x60", waiters="0 3 0 2 0 1 0 3 1 0 1 0 2 0 0 0 3 0 1 0x40")
        | _acquires(JOBS, granted="0+9x60"),
        {10: (), 20: (), 50: ()},
    ),
    Scenario(
        "there is no limit",
        _of(JOBS, permits_limit=" ".join(["+Inf"] * 60), permits_in_use="400x60", waiters="1x60")
        | _acquires(JOBS, granted="0+9x60"),
        {40: ()},
    ),
    Scenario(
        "one program keeps all and the line stands",
        _of(JOBS, permits_limit="4x60", permits_in_use="4x60", waiters="3x60", paused="0x60")
        | _acquires(JOBS, granted="0+9x10 90x50"),
        {
            12: (f"GovernorResourceSaturated{{{JOBS}}}",),
            25: (f"GovernorResourceSaturated{{{JOBS}}}", f"GovernorWaitersStuck{{{JOBS}}}"),
        },
    ),
    Scenario(
        "a line stands before what is paused",
        _of(JOBS, permits_limit="4x100", permits_in_use="0x100", waiters="3x100", paused="1x100", draining="0x100")
        | _acquires(JOBS, granted="90x100"),
        {50: (), 70: (f"GovernorPausedLong{{{JOBS}}}",)},
    ),
    Scenario(
        "more want to wait than may",
        _acquires(JOBS, line_full="5x10 6+3x10 36x60"),
        {10: (), 18: (f"GovernorLineFull{{{JOBS}}}",), 40: ()},
    ),
    Scenario(
        "a rate limit refuses every other ask",
        _acquires(API, granted="0+60x100", hopeless="0x10 0+60x90"),
        {10: (), 15: (), 60: (f"GovernorRateLimitFastBurn{{{API}}}",)},
    ),
    Scenario(
        "a rate limit refused many, and it is over",
        _acquires(API, granted="0+60x100", hopeless="0x10 0+60x40 2400x50"),
        {45: (f"GovernorRateLimitFastBurn{{{API}}}",), 60: ()},
    ),
    Scenario(
        "a semaphore refuses every other ask",
        _acquires(JOBS, granted="0+60x100", none_free="0+60x100"),
        {60: ()},
    ),
    Scenario(
        "a limit has shrunk below what is lent, and it does not come back",
        _of(JOBS, permits_over_limit="0x10 2x10 2x30 0x20"),
        {20: (), 27: (f"GovernorOvershoot{{{JOBS}}}",), 60: ()},
    ),
    Scenario(
        "one member is broken",
        _members("1x60", "0x60", "0x10 1x50"),
        {20: (), 27: (f'GovernorMembersQuarantined{{{DB},state="quarantined"}}',)},
    ),
    Scenario(
        "all members are broken, for a while",
        _members("2x10 0x5 2x40", "0x60", "0x10 2x5 0x40"),
        {10: (), 13: (f'GovernorPoolAllQuarantined{{{DB},state="quarantined"}}',), 30: ()},
    ),
    Scenario(
        "a resource drains and one lease stays",
        _of(JOBS, draining="0x10 1x80", leases="3x10 1x80"),
        {30: (), 42: (f"GovernorResourceDrainsTooLong{{{JOBS}}}",)},
    ),
    Scenario(
        "a resource has drained",
        _of(JOBS, draining="1x80", leases="3x10 0x70"),
        {60: ()},
    ),
    Scenario(
        "a client leaks, and another lost a lease once",
        {
            f'governor_client_lease_ends_total{{{HERE},client="leaky",reason="expired"}}': "0x10 1+1x20 21x40",
            f'governor_client_lease_ends_total{{{HERE},client="unlucky",reason="expired"}}': "0x10 1x60",
        },
        {10: (), 22: (f'GovernorLeaseExpiries{{{HERE},client="leaky"}}',), 60: ()},
    ),
)
