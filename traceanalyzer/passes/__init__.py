"""One module a question: relations of the store in, tables with declared columns out. Nothing here prints."""
