"""The YAML file that declares everything: read strictly, and answered with every mistake at once, by line.

It knows how a file becomes a `Config`. It must never act on one: it opens no socket and makes no folder.
"""

from governor.config.load import DEFAULT, Config, contents, fingerprint, folder_of, load, loads, parse
from governor.config.problems import ConfigError, Problem
from governor.config.schema import json_schema
from governor.config.state import ConfigState, Reloaded

__all__ = [
    "DEFAULT",
    "Config",
    "ConfigError",
    "ConfigState",
    "Problem",
    "Reloaded",
    "contents",
    "fingerprint",
    "folder_of",
    "json_schema",
    "load",
    "loads",
    "parse",
]
