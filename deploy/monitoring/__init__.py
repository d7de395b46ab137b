"""Rules, dashboards and a runbook; the Python in here makes the dashboards and runs everything together."""
