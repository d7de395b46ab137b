"""What clients saw of a daemon, and what can be proved from that alone: for the simulator and for real processes."""
