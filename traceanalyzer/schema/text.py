"""Text that can be stored: names of files and of runs may hold bytes that are no text."""


def is_storable(text: str) -> bool:
    """Whether the text is one of Unicode. What the operating system gives for other bytes is not."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def storable(text: str) -> str:
    """The text, with an escape such as `\\xff` for every byte that is no text."""
    if is_storable(text):
        return text
    try:
        raw = text.encode("utf-8", "surrogateescape")  # bytes as the operating system gave them
    except UnicodeEncodeError:
        raw = text.encode("utf-8", "surrogatepass")  # half a character, from elsewhere
    return raw.decode("utf-8", "backslashreplace")
