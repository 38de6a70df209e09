"""The schemas of tools: within the subset as JSON Schema has it, outside refused."""

from __future__ import annotations

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spade_rl.environment.schema import KEYWORDS, Mismatch, SchemaError, check_schema, validated

names = st.sampled_from(["a", "b", "c", "d"])
scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-20, 20),
    st.floats(-20, 20),
    st.integers(-20, 20).map(float),
    st.text(max_size=3),
    st.sampled_from(["a", "b", ""]),
)
values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=4), max_leaves=12
)


def numbers(kind: str) -> st.SearchStrategy[dict]:
    member = st.integers(-20, 20) if kind == "integer" else st.integers(-20, 20) | st.floats(-20, 20)
    bounds = st.fixed_dictionaries(
        {"type": st.just(kind)}, optional={"minimum": st.integers(-20, 0), "maximum": st.integers(0, 20)}
    )
    chosen = st.fixed_dictionaries({"type": st.just(kind), "enum": st.lists(member, min_size=1, max_size=4)})
    return bounds | chosen


def objects(inner: st.SearchStrategy[dict]) -> st.SearchStrategy[dict]:
    def closed(properties: dict) -> st.SearchStrategy[dict]:
        required = st.lists(st.sampled_from(sorted(properties)), unique=True) if properties else st.just([])
        return required.map(lambda chosen: {"type": "object", "properties": properties, "required": chosen})

    return st.dictionaries(names, inner, max_size=3).flatmap(closed)


schemas = st.recursive(
    st.one_of(
        st.just({"type": "string"}),
        st.just({"type": "boolean", "description": "yes or no"}),
        st.fixed_dictionaries(
            {"type": st.just("string"), "enum": st.lists(st.sampled_from(["a", "b", "é"]), min_size=1)}
        ),
        numbers("integer"),
        numbers("number"),
    ),
    lambda inner: st.one_of(
        st.fixed_dictionaries({"type": st.just("array")}, optional={"items": inner}), objects(inner)
    ),
    max_leaves=6,
)


def fits(schema: dict, value: object) -> bool:
    try:
        found = validated(schema, value, "value")
    except Mismatch:
        return False
    assert found == value
    return True


@given(schemas, st.data())
def test_a_value_is_valid_exactly_if_json_schema_says_so(schema: dict, data: st.DataObject) -> None:
    published = check_schema(schema, "it")
    jsonschema.Draft202012Validator.check_schema(published)
    value = data.draw(values | likely(schema))
    assert fits(published, value) == jsonschema.Draft202012Validator(published).is_valid(value)


def likely(schema: dict) -> st.SearchStrategy[object]:
    """Values that are often valid."""
    match schema["type"]:
        case "array":
            return st.lists(likely(schema["items"]) if "items" in schema else values, max_size=3)
        case "object":
            return st.fixed_dictionaries(
                {}, optional={name: likely(each) for name, each in schema["properties"].items()}
            )
        case "string":
            return st.sampled_from(schema.get("enum", ["a", "b"]))
        case "boolean":
            return st.booleans()
    return st.sampled_from(schema["enum"]) if "enum" in schema else st.integers(-20, 20) | st.floats(-20, 20)


@given(schemas)
def test_what_is_published_is_its_own_published_form(schema: dict) -> None:
    published = check_schema(schema, "it")
    assert check_schema(published, "it") == published


def test_whole_numbers_reach_tools_as_integers() -> None:
    schema = check_schema({"type": "array", "items": {"type": "integer"}}, "it")
    found = validated(schema, [2.0, 3], "it")
    assert [type(item) for item in found] == [int, int]
    assert type(validated({"type": "number"}, 2.0, "it")) is float


@pytest.mark.parametrize(
    ("schema", "says"),
    [
        ("string", "must be a dict"),
        ({}, "type must be one of"),
        ({"type": ["string", "null"]}, "type must be one of"),
        ({"type": "null"}, "type must be one of"),
        ({"type": "string", "pattern": "a"}, "'pattern' is not among the keywords for string"),
        ({"type": "string", "minimum": 1}, "'minimum' is not among"),
        ({"type": "string", "default": "a"}, "'default' is not among"),
        ({"type": "integer", "minimum": "1"}, "minimum must be a number"),
        ({"type": "integer", "minimum": True}, "minimum must be a number"),
        ({"type": "number", "maximum": float("nan")}, "maximum must be a number"),
        ({"type": "integer", "minimum": 2, "maximum": 1}, "minimum is larger"),
        ({"type": "string", "enum": []}, "at least one value"),
        ({"type": "string", "enum": "ab"}, "must be a list"),
        ({"type": "string", "enum": ["a", 1]}, "a value must be a string, not 1"),
        ({"type": "integer", "enum": [5], "minimum": 6}, "at least 6"),
        ({"type": "string", "description": 1}, "description must be text"),
        ({"type": "array", "items": {"type": "text"}}, r"it\[\]: type must be one of"),
        ({"type": "object"}, "needs properties"),
        ({"type": "object", "properties": {1: {"type": "string"}}}, "needs properties"),
        ({"type": "object", "properties": {}, "required": ["a"]}, "required must be"),
        ({"type": "object", "properties": {}, "additionalProperties": True}, "can only be False"),
        ({"type": "object", "properties": {"a": {"type": "x"}}}, "it.a: type must be one of"),
    ],
)
def test_what_lies_outside_of_the_subset_is_refused(schema: object, says: str) -> None:
    with pytest.raises(SchemaError, match=says):
        check_schema(schema, "it")


@pytest.mark.parametrize("keyword", ["anyOf", "allOf", "not", "const", "format", "minLength", "minItems", "$ref", "if"])
@pytest.mark.parametrize("kind", sorted(KEYWORDS))
def test_no_other_keyword_is_ignored(kind: str, keyword: str) -> None:
    with pytest.raises(SchemaError, match="is not among the keywords"):
        check_schema(
            {"type": kind, "properties": {}, keyword: 1} if kind == "object" else {"type": kind, keyword: 1}, "it"
        )


@pytest.mark.parametrize(
    ("value", "says"),
    [
        ({}, "move misses source, amount"),
        ({"source": "a", "amount": 1, "target": "b"}, "move has no target; it takes source, amount"),
        ({"source": 1, "amount": 1}, "source must be a string, not 1"),
        ({"source": "c", "amount": 1}, "source must be one of 'a', 'b', not 'c'"),
        ({"source": "a", "amount": 0}, "amount must be at least 1, not 0"),
        ({"source": "a", "amount": 10}, "amount must be at most 9, not 10"),
        ({"source": "a", "amount": 1.5}, "amount must be an integer, not 1.5"),
        ({"source": "a", "amount": True}, "amount must be an integer, not true"),
        ({"source": "a", "amount": None}, "amount must be an integer, not null"),
        ({"source": "a", "amount": [1]}, "amount must be an integer, not an array"),
        ({"source": "a", "amount": "x" * 999}, "amount must be an integer, not 'xxx"),
    ],
)
def test_a_mismatch_says_what_and_where(value: object, says: str) -> None:
    schema = check_schema(
        {
            "type": "object",
            "properties": {
                "source": {"type": "string", "enum": ["a", "b"]},
                "amount": {"type": "integer", "minimum": 1, "maximum": 9},
            },
            "required": ["source", "amount"],
        },
        "move",
    )
    with pytest.raises(Mismatch) as caught:
        validated(schema, value, "move")
    assert str(caught.value).startswith(says)
    assert len(str(caught.value)) < 200
