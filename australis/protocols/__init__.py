"""Protocol cores: pure machines that run unchanged in the simulator and live."""
