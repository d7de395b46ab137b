"""The YAML file that declares everything: read strictly, and answered with every mistake at once, by line.

It knows how a file becomes a `Config`. It must never act on one: it opens no socket and makes no folder.
"""

from governor.config.load import DEFAULT, Config, load, loads
from governor.config.problems import ConfigError, Problem
from governor.config.schema import json_schema

__all__ = ["DEFAULT", "Config", "ConfigError", "Problem", "json_schema", "load", "loads"]
