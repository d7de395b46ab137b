"""How governor is run on Kubernetes; the Python in here makes the rules for the Prometheus operator."""
