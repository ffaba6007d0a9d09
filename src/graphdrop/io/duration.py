"""Seconds as text."""


def duration(seconds: float) -> str:
    """A duration as text, such as `2 h 05 min`, `3 min` or `40 s`."""
    minutes = round(seconds / 60)
    if minutes >= 60:
        return f"{minutes // 60} h {minutes % 60:02} min"
    return f"{minutes} min" if seconds >= 90 else f"{seconds:.0f} s"
