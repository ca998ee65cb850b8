"""Answers as text: for people (table, markdown) and for programs (json, csv)."""
