"""Files that are written whole and read safely, locks, memory limits, devices by name."""
