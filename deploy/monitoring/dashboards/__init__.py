"""The dashboards of Grafana, as Python: `make dashboards` writes them to deploy/monitoring/grafana/dashboards."""
