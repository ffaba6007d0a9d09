"""What every room may need and none should write twice: files, locks, memory, ordered sums."""
