"""The words that all rooms share: labels of metrics. Imports nothing of ours."""
