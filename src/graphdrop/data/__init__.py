"""The data room: datasets, where their files come from, splits and out-of-distribution variants."""
