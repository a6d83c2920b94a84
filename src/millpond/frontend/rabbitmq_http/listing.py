"""What a client may ask of a list: columns, an order, a page, names that match."""

from collections.abc import Iterable, Mapping
from typing import Any

from millpond.base.errors import InvalidDefinition
from millpond.frontend.rabbitmq_http.http import Refused, bad_request
from millpond.rabbit.patterns import compiled

_PAGE_SIZE_DEFAULT = 100
_PAGE_SIZE_MAX = 500


def listed(rows: Iterable[Mapping[str, Any]], query: Mapping[str, str]) -> Any:
    """Return the list, or the page that was asked for. Raises ``Refused``."""
    every = [dict(row) for row in rows]
    if "page" not in query:
        return _cut(_sorted(every, query), query)
    page, size = _page(query)
    found = _sorted([row for row in every if _matches(row, query)], query)
    pages = max(1, -(-len(found) // size))
    if page > pages:
        raise Refused(
            400,
            "page_out_of_range",
            f"Page out of range, page: {page} page size: {size}, len: {len(every)}",
        )
    items = found[(page - 1) * size : page * size]
    return {
        "filtered_count": len(found),
        "item_count": len(items),
        "items": _cut(items, query),
        "page": page,
        "page_count": pages,
        "page_size": size,
        "total_count": len(every),
    }


def shown(row: Mapping[str, Any], query: Mapping[str, str]) -> dict[str, Any]:
    """Return one row with the columns that were asked for."""
    return _cut([dict(row)], query)[0]


def _page(query: Mapping[str, str]) -> tuple[int, int]:
    try:
        page, size = int(query["page"]), int(query.get("page_size", _PAGE_SIZE_DEFAULT))
    except ValueError:
        page = size = 0
    if page < 1 or not 1 <= size <= _PAGE_SIZE_MAX:
        raise bad_request("Pagination parameters are invalid")
    return page, size


def _matches(row: Mapping[str, Any], query: Mapping[str, str]) -> bool:
    wanted = query.get("name", "")
    if not wanted:
        return True
    name = str(row.get("name", ""))
    if query.get("use_regex", "false") != "true":
        return wanted.lower() in name.lower()
    try:
        return compiled(f"(?i){wanted}").search(name) is not None
    except InvalidDefinition:
        raise bad_request("Pagination parameters are invalid") from None


def _sorted(rows: list[dict[str, Any]], query: Mapping[str, str]) -> list[dict[str, Any]]:
    column = query.get("sort")
    if column:
        rows.sort(
            key=lambda row: _order(_at(row, column.split("."))),
            reverse=query.get("sort_reverse") == "true",
        )
    return rows


def _order(value: object) -> tuple[int, float, str]:
    """Numbers before words, nothing before both."""
    if value is None:
        return 0, 0.0, ""
    if isinstance(value, (int, float)):
        return 1, float(value), ""
    return 2, 0.0, str(value)


def _cut(rows: list[dict[str, Any]], query: Mapping[str, str]) -> list[dict[str, Any]]:
    if not query.get("columns"):
        return rows
    columns = [name.split(".") for name in query["columns"].split(",")]
    return [_columns_of(row, columns) for row in rows]


def _columns_of(row: Mapping[str, Any], columns: Iterable[list[str]]) -> dict[str, Any]:
    result: dict[str, Any] = {}
    for path in columns:
        value = _at(row, path)
        if value is None and not _has(row, path):
            continue
        place = result
        for name in path[:-1]:
            place = place.setdefault(name, {})
        place[path[-1]] = value
    return result


def _has(row: Mapping[str, Any], path: list[str]) -> bool:
    return isinstance(row, dict) and len(path) == 1 and path[0] in row


def _at(row: object, path: list[str]) -> Any:
    for name in path:
        row = row.get(name) if isinstance(row, dict) else None
    return row
