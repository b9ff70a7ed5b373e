"""OpenAPI 3.1: made of the types that requests are read with."""

from typing import Any

import msgspec
from msgspec import Raw

import swapcal
from swapcal.service.http import messages as m
from swapcal.service.http.offers import OFFERS, Offer, Parameter
from swapcal.service.http.problems import MEDIA
from swapcal.service.refusal import KINDS
from swapcal.service.settings import Settings

REFERENCE = "#/components/schemas/{name}"
JSON, NDJSON = "application/json", "application/x-ndjson"
RECORD = {"type": "object", "additionalProperties": {"type": ["string", "number", "boolean", "null"]}}
STATUSES = {kind.status: kind.title for kind in KINDS.values()}


def document() -> dict[str, Any]:
    """Return the OpenAPI document of the service."""
    schemas = components()
    paths: dict[str, dict[str, Any]] = {}
    for offer in OFFERS:
        paths.setdefault(offer.shown_path, {})[offer.method.lower()] = _operation(offer)
    return {
        "openapi": "3.1.0",
        "info": {"title": "swapcal", "version": swapcal.__version__, "description": ABOUT},
        "paths": paths,
        "components": {
            "schemas": schemas,
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    }


ABOUT = "Probability forecasts that stay calibrated, with outcomes whenever they come. A 2xx means: it is on disk."


def components() -> dict[str, Any]:
    """Return the schemas of all messages by name."""
    types = [offer_type for offer in OFFERS for offer_type in (*offer.takes, *offer.gives) if offer_type is not None]
    types += [m.Problem, m.ForecastIn, m.OutcomeRowIn, m.ForecastOut, m.OutcomeOut, Settings]
    _, found = msgspec.json.schema_components([*dict.fromkeys(types)], schema_hook=_raw, ref_template=REFERENCE)
    _spell_out_rows(found)
    return found


def _raw(given: Any) -> dict[str, Any]:
    assert given is Raw
    return {}


def _spell_out_rows(found: dict[str, Any]) -> None:
    """Say what is in the parts that are read one by one, so that one bad row does not spoil the others."""
    for name in ("ForecastIn", "ForecastBodyIn", "PreviewIn"):
        found[name]["properties"]["record"] = RECORD
    found["ForecastBodyIn"]["properties"]["forecasts"] = _list_of("ForecastIn")
    found["ForecastBodyIn"]["oneOf"] = [{"required": ["id", "record"]}, {"required": ["forecasts"]}]
    found["PreviewIn"]["properties"]["records"] = {"type": "array", "items": RECORD}
    found["PreviewIn"]["oneOf"] = [{"required": ["record"]}, {"required": ["records"]}]
    found["OutcomesIn"]["properties"]["outcomes"] = _list_of("OutcomeRowIn")
    found["ForecastsOut"]["properties"]["forecasts"] = _list_of("ForecastOut", "PreviewOut", "Problem")
    found["OutcomesOut"]["properties"]["outcomes"] = _list_of("OutcomeOut", "Problem")


def _list_of(*names: str) -> dict[str, Any]:
    each = [{"$ref": REFERENCE.format(name=name)} for name in names]
    return {"type": "array", "items": each[0] if len(each) == 1 else {"anyOf": each}}


def _operation(offer: Offer) -> dict[str, Any]:
    operation: dict[str, Any] = {
        "operationId": offer.name,
        "summary": (offer.handler.__doc__ or "").strip().splitlines()[0],
        "parameters": [_parameter(one) for one in offer.parameters],
        "responses": {str(status): _answer(offer, status) for status in offer.statuses},
    }
    refused = {**dict.fromkeys(offer.refusals), **({401: None, 403: None} if offer.needed else {}), 421: None}
    for status in sorted(refused):
        operation["responses"][str(status)] = _problem(STATUSES[status])
    if offer.takes:
        operation["requestBody"] = {"required": True, "content": _content(offer.takes, offer.lines)}
    if offer.needed is not None:
        operation["security"] = [{"token": []}, {}]
        operation["description"] = f"Needs the scope {offer.needed}, where tokens are needed."
    return operation


def _answer(offer: Offer, status: int) -> dict[str, Any]:
    if offer.media is not None:
        return {"description": "Done.", "content": {offer.media: {"schema": {"type": "string"}}}}
    content = _content(offer.gives, offer.lines) if offer.gives else {JSON: {"schema": {"type": "object"}}}
    return {"description": {201: "Made.", 200: "Done."}[status], "content": content}


def _content(types: tuple[Any, ...], lines: bool) -> dict[str, Any]:
    each = [{"$ref": REFERENCE.format(name=one.__name__)} for one in types]
    found: dict[str, Any] = {JSON: {"schema": each[0] if len(each) == 1 else {"anyOf": each}}}
    if lines:
        found[NDJSON] = {"schema": {"type": "string"}}
    return found


def _parameter(one: Parameter) -> dict[str, Any]:
    return {
        "name": one.name,
        "in": one.where,
        "required": one.required,
        "description": one.words,
        "schema": one.schema,
    }


def _problem(title: str) -> dict[str, Any]:
    return {"description": title, "content": {MEDIA: {"schema": {"$ref": REFERENCE.format(name="Problem")}}}}
