"""Objects as one program writes them, and as another one has made them."""


def said_again(wanted, got, where=""):
    """Where `got` does not say what `wanted` says. Quantities are written in another way."""
    if isinstance(wanted, dict):
        for key, value in wanted.items():
            if key not in got and value not in ("", [], {}):
                yield f"{where}.{key} is gone"
            elif key in got:
                yield from said_again(value, got[key], f"{where}.{key}")
    elif isinstance(wanted, list):
        if len(wanted) != len(got):
            yield f"{where}: {len(wanted)} are {len(got)}"
        for i, value in enumerate(wanted[:len(got)]):
            yield from said_again(value, got[i], f"{where}[{i}]")
    elif str(wanted) != str(got) and (".requests." not in where and ".limits." not in where):
        yield f"{where}: {wanted!r} became {got!r}"
