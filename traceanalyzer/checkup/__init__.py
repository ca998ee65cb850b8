"""The check-up: one verdict an item, with its cost from the ledger, its evidence, and what to change first.

`verdicts/` has one module a verdict; `check_up` asks them all. Texts are in `messages.toml`, in every language.
"""
