"""What a person writes for an arm, and what is said of what cannot be one."""

from __future__ import annotations

import pytest

from fusion.compare.arms import ArmReader
from fusion.errors import BadInput
from fusion.recipe import Recipe

HAVE = ArmReader(
    {"default": Recipe(), "seed003": Recipe("seed003"), "my-own": Recipe("my-own")},
    ("markdown", "cortex", "mem0", "mem0-cloud"),
    "default",
)
EVERY = ("markdown", "cortex", "mem0", "mem0-cloud")


@pytest.mark.parametrize(
    ("text", "recipe", "backends"),
    [
        ("default", "default", EVERY),
        ("my-own", "my-own", EVERY),
        ("all", "default", EVERY),
        ("@all", "default", EVERY),
        ("@markdown", "default", ("markdown",)),
        ("seed003@mem0+markdown+mem0", "seed003", ("markdown", "mem0")),  # in the home's order, each once
        ("-mem0", "default", ("markdown", "cortex", "mem0-cloud")),
        ("-mem0-cloud", "default", ("markdown", "cortex", "mem0")),  # the longest name that fits
        ("-mem0-cortex", "default", ("markdown", "mem0-cloud")),
        ("-mem0-mem0-cloud", "default", ("markdown", "cortex")),
        ("my-own@-cortex", "my-own", ("markdown", "mem0", "mem0-cloud")),
        ("  all ", "default", EVERY),
    ],
)
def test_an_arm_is_a_recipe_and_its_backends(text: str, recipe: str, backends: tuple[str, ...]) -> None:
    """Each form of the grammar; without a recipe it is the home's own, without backends it is all."""
    arm = HAVE.arm("a", text)
    assert (arm.recipe.name, arm.backends) == (recipe, backends)


@pytest.mark.feature("an arm is a recipe, the backends it asks, or both; an impossible one is refused with the choices")
@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "arm b is empty"),
        ("nope", "there is no recipe 'nope'; there are default, my-own, seed003"),
        ("markdown+cortex", "backends are written @markdown+cortex"),
        ("default@", "nothing follows the @"),
        ("@nope", "there is no backend 'nope'; there are markdown, cortex, mem0, mem0-cloud"),
        ("@markdown+", "there is no backend ''"),
        ("-mem1", "there is no backend 'mem1'"),
        ("-mem0-nope", "there is no backend 'nope'"),
        ("-", "there is no backend ''"),
        ("-markdown-cortex-mem0-mem0-cloud", "leaves no backend"),
        ("nope@all", "there is no recipe 'nope'"),
        ("default@markdown@cortex", "there is no backend 'markdown@cortex'"),
    ],
)
def test_arm_error_names_the_arm_and_the_choices(text: str, says: str) -> None:
    """The error names the arm, and the recipes or backends of this home."""
    with pytest.raises(BadInput) as caught:
        HAVE.arm("b", text)
    assert str(caught.value).startswith("arm b")
    assert says in str(caught.value)


@pytest.mark.feature("an arm is not compared with itself, however it is written; the error names others")
@pytest.mark.parametrize("b", ["all", "default", "@mem0+cortex+markdown+mem0-cloud", "default@all"])
def test_an_arm_is_not_compared_with_itself(b: str) -> None:
    """Whichever way it is written; another recipe and another choice of backends are named."""
    says = "both arms are default over markdown, cortex, mem0, mem0-cloud: name another one, such as my-own or -mark"
    with pytest.raises(BadInput, match=says):
        HAVE.arms("all", b)
    assert [arm.recipe.name for arm in HAVE.arms("all", "seed003")] == ["default", "seed003"]
    assert [arm.backends for arm in HAVE.arms("@cortex", "@mem0")] == [("cortex",), ("mem0",)]


def test_arm_error_names_no_other_where_there_is_none() -> None:
    """One recipe and one backend."""
    with pytest.raises(BadInput, match=r"both arms are default over markdown$"):
        ArmReader({"default": Recipe()}, ("markdown",), "default").arms("all", "default")
