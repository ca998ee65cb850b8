"""How fast it is, as ratios to a yardstick measured in the same run: `python -m tests.bench`. No test runs this."""
