from swapcal.service.store import TokenRow
def scopes_of(token: str, rows: list[TokenRow]) -> "frozenset[str] | None":
    return None
