"""Exit statuses that are not of an error."""

INTERRUPTED = 130  # 128 + SIGINT, as a shell reports it
