"""What a token says of its bearer: one story for each way to be refused, and for each way to say scopes."""

from typing import Any

import pytest

from millpond.auth.claims import Bearer, TokenRefused, TokenRules, read_claims

NOW_S = 1_800_000_000
RULES = TokenRules(resource_server_id="mill", scope_prefix="mill.", leeway_s=5)


def claims(**changes: Any) -> dict[str, Any]:
    """A good token's; what is None is left out."""
    said = {
        "sub": "ann",
        "aud": "mill",
        "exp": NOW_S + 60,
        "scope": "mill.read:%2F/* mill.tag:administrator other.write:*/*",
        **changes,
    }
    return {name: value for name, value in said.items() if value is not None}


def read(rules: TokenRules = RULES, **changes: Any) -> Bearer:
    return read_claims(claims(**changes), rules, NOW_S)


def refused(rules: TokenRules = RULES, **changes: Any) -> str:
    with pytest.raises(TokenRefused) as refusal:
        read(rules, **changes)
    return str(refusal.value)


def test_a_good_token_names_its_bearer() -> None:
    assert read() == Bearer(
        name="ann", tags=("administrator",), scopes=("read:%2F/*",), expires_s=NOW_S + 65
    )


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"exp": NOW_S - 5}, "the token has expired"),
        ({"exp": None}, "the token does not say when it expires (exp)"),
        ({"exp": "tomorrow"}, "the token's time of expiry (exp) is not a number"),
        ({"exp": True}, "the token's time of expiry (exp) is not a number"),
        ({"exp": float("inf")}, "the token's time of expiry (exp) is not a number"),
        ({"exp": float("nan")}, "the token's time of expiry (exp) is not a number"),
        ({"nbf": NOW_S + 6}, "the token is not valid yet (nbf)"),
        ({"nbf": "soon"}, "the token's beginning (nbf) is not a number"),
        ({"aud": None}, "the token does not say whom it is for (aud)"),
        ({"aud": 7}, "the token does not say whom it is for (aud)"),
        ({"aud": "other"}, "the token is for another audience (aud)"),
        ({"aud": ["a", "b"]}, "the token is for another audience (aud)"),
        ({"aud": "windmill"}, "the token is for another audience (aud)"),
    ],
)
def test_what_is_refused(changes: dict[str, Any], reason: str) -> None:
    assert refused(**changes) == reason


def test_clocks_may_differ_a_little() -> None:
    assert read(exp=NOW_S - 4).expires_s == NOW_S + 1
    assert read(nbf=NOW_S + 5).name == "ann"


@pytest.mark.parametrize("audience", ["mill", "other mill", ["other", "mill"]])
def test_the_audience_is_one_of_several(audience: object) -> None:
    assert read(aud=audience).name == "ann"


def test_the_audience_need_not_be_looked_at() -> None:
    rules = TokenRules(resource_server_id="mill", scope_prefix="mill.", verify_aud=False)
    assert read(rules, aud=None).name == "ann"


def test_too_many_scopes_are_refused() -> None:
    assert "2048 scopes" in refused(scope=[f"mill.read:a/{number}" for number in range(2049)])


@pytest.mark.parametrize(
    "scope", ["mill.read:a/b mill.write:a/b", ["mill.read:a/b", "mill.write:a/b", 7, None]]
)
def test_scopes_are_a_text_or_a_list(scope: object) -> None:
    assert read(scope=scope).scopes == ("read:a/b", "write:a/b")


@pytest.mark.parametrize("scope", [None, "", 7, [], "other.read:*/*", "read:*/*"])
def test_who_has_no_scope_for_this_broker_is_known_and_may_nothing(scope: object) -> None:
    assert read(scope=scope).scopes == ()


def test_another_prefix() -> None:
    rules = TokenRules(resource_server_id="mill", scope_prefix="api://")
    assert read(rules, scope="api://read:a/b mill.read:c/d").scopes == ("read:a/b",)


@pytest.mark.parametrize(
    "extra",
    [
        {"roles": ["mill.write:a/b"]},
        {"roles": "mill.write:a/b"},
        {"roles": {"mill": ["write:a/b"], "other": ["write:c/d"]}},
        {"realm": {"access": [{"scopes": ["mill.write:a/b"]}, {"x": 1}, 7]}},
    ],
)
def test_scopes_in_other_claims(extra: dict[str, Any]) -> None:
    rules = TokenRules(
        resource_server_id="mill",
        scope_prefix="mill.",
        additional_scopes=("roles", "realm.access.scopes"),
    )
    assert read(rules, scope="mill.read:a/b", **extra).scopes == ("read:a/b", "write:a/b")


def test_a_scope_that_stands_for_others() -> None:
    rules = TokenRules(
        resource_server_id="mill",
        scope_prefix="mill.",
        aliases={"admin": ("mill.tag:administrator", "mill.read:*/*")},
    )
    bearer = read(rules, scope="admin")
    assert (bearer.tags, bearer.scopes) == (("administrator",), ("read:*/*",))


def test_the_name_is_the_first_claim_that_is_there() -> None:
    rules = TokenRules(
        resource_server_id="mill", scope_prefix="mill.", name_claims=("user_name", "email")
    )
    assert read(rules, user_name="Ann", email="a@b").name == "Ann"
    assert read(rules, user_name=7, email="a@b").name == "a@b"
    assert read(rules).name == "ann"
    assert read(sub=None, client_id="robot").name == "robot"
    assert read(sub=None).name == "unknown"


@pytest.mark.parametrize(
    "changes",
    [
        {"sub": "ann\ud800"},
        {"scope": "mill.read:%2F/\udfff"},
        {"scope": ["mill.tag:\ud800"]},
    ],
)
def test_halves_of_characters_are_no_text(changes: dict[str, Any]) -> None:
    assert refused(**changes) == "the token's name or scopes hold what is no text"


def test_what_is_not_for_this_broker_may_be_anything() -> None:
    assert read(scope="mill.read:%2F/* other.read:\ud800").scopes == ("read:%2F/*",)
