"""A proxy between client and daemon that cuts, delays, holds or swallows single messages of a session.

It sees what either end says. It must never speak for itself: settings, pings, windows and the ends of streams are
those of the two ends, so that what a test sees is what they do to each other. Calls other than Session pass unseen.
"""

from tests.proxy.proxy import Proxy
from tests.proxy.rules import Rule, Way

__all__ = ["Proxy", "Rule", "Way"]
