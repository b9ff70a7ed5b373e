"""The HTTP API as Markdown, from the OpenAPI document that the service emits."""

import inspect
from collections.abc import Iterator
from typing import Any

from swapcal.service.openapi import document


def markdown() -> str:
    """Return a section for each call, then one for each message."""
    spec = document()
    calls = [part for path, methods in spec["paths"].items() for part in _calls(path, methods)]
    messages = [
        part for name, schema in sorted(spec["components"]["schemas"].items()) for part in _message(name, schema)
    ]
    return "\n\n".join(["## Calls", *calls, "## Messages", *messages])


def _calls(path: str, methods: dict[str, Any]) -> Iterator[str]:
    for method, call in methods.items():
        yield f"### {method.upper()} {path}".replace("{", "\\{")
        yield " ".join(filter(None, (call["summary"], call.get("description"))))
        yield from (_parameter(each) for each in call["parameters"])
        body = call.get("requestBody", {}).get("content", {})
        if body:
            yield f"Takes {_contents(body)}."
        good = {status: answer for status, answer in call["responses"].items() if status < "300"}
        bad = [status for status in call["responses"] if status >= "300"]
        for status, answer in good.items():
            yield f"Answers {status} with {_contents(answer['content'])}; else {', '.join(bad)}."


def _parameter(one: dict[str, Any]) -> str:
    needed = "" if one["required"] else ", may be left out"
    return f"`{one['name']}` ({one['in']}{needed})\n: {one['description']}: {_type(one['schema'])}"


def _contents(content: dict[str, Any]) -> str:
    return " or ".join(f"{_type(each['schema'])} as `{media}`" for media, each in content.items())


def _message(name: str, schema: dict[str, Any]) -> Iterator[str]:
    yield f"({_anchor(name)})=\n### {name}"
    if "description" in schema:
        yield inspect.cleandoc(schema["description"])
    required = schema.get("required", ())
    for field, each in schema.get("properties", {}).items():
        notes = [_type(each), each.get("description", "")]
        if field not in required and each.get("default") is not None:
            notes.append(f"by default `{each['default']}`")
        needed = " (required)" if field in required else ""
        yield f"`{field}`{needed}\n: {'; '.join(filter(None, notes))}"


def _type(schema: dict[str, Any]) -> str:
    """Return the words for a schema."""
    if "$ref" in schema:
        name = schema["$ref"].rsplit("/", 1)[1]
        return f"[{name}](#{_anchor(name)})"
    if "anyOf" in schema:
        return " or ".join(map(_type, schema["anyOf"]))
    if "enum" in schema:
        return " or ".join(f"`{value}`" for value in schema["enum"])
    if schema.get("type") == "array":
        return f"a list of {' and '.join(map(_type, schema.get('prefixItems', [schema.get('items', {})])))}"
    kind = schema.get("type", "anything")
    words = kind if isinstance(kind, str) else " or ".join(kind)
    limits = [f"{word} {schema[key]}" for key, word in LIMITS.items() if key in schema]
    return f"{words} ({', '.join(limits)})" if limits else words


LIMITS = {
    "minimum": "at least",
    "exclusiveMinimum": "above",
    "maximum": "at most",
    "exclusiveMaximum": "below",
    "minLength": "length at least",
    "maxLength": "length at most",
}


def _anchor(name: str) -> str:
    return f"message-{name.lower()}"
