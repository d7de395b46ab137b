"""The tests mirror the package: `tests/core` for `governor/core`. `tests/e2e` runs the real daemon."""
