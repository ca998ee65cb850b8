"""The report: what the questions answered, as one page that a team can pass around."""
