"""Rules, dashboards and runbook: what is in deploy/monitoring holds together, and holds for a real daemon."""
