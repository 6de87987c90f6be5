"""The registry of local models: every entry is complete, and is found by the names that people use."""

from __future__ import annotations

import re

import numpy as np
import pytest

from fusion.contract import NO_SCALE
from fusion.errors import SettingsError
from fusion.local_models.registry import DEFAULT, MODELS, LocalModel, PlattCurve, named, of_identity


@pytest.mark.feature("a registry names each local model's licence, hash, prefixes, pooling, dimensions and sources")
@pytest.mark.parametrize("model", MODELS.values(), ids=lambda model: model.name)
def test_every_entry_is_complete(model: LocalModel) -> None:
    """A hash of a whole file, a licence, and at least one place where the file can come from."""
    source = model.sources
    assert MODELS[model.name] is model
    assert re.fullmatch(r"[0-9a-f]{64}", model.sha256)
    assert model.bytes > 1_000_000
    assert model.licence in ("Apache-2.0", "MIT")
    assert (source.wheel and source.wheel_file) or (source.hub and source.hub_file)
    assert bool(source.jar) == bool(source.jar_file)
    assert not source.wheel or re.fullmatch(r"[a-z0-9-]+==[0-9.]+", source.wheel)
    assert not source.jar or len(source.jar.split(":")) == 3
    assert of_identity(model.identity) is model


def test_identities_differ() -> None:
    """Two models never share an index or a cache."""
    assert len({model.identity for model in MODELS.values()}) == len(MODELS)
    assert MODELS[DEFAULT].identity == "all-MiniLM-L6-v2-int8@8199be6f"


def test_a_model_is_found_by_its_name_or_its_publishers() -> None:
    assert named("") is named("minilm") is named("all-MiniLM-L6-v2") is MODELS[DEFAULT]
    assert named("e5-small-v2").query_prefix == "query: "
    with pytest.raises(SettingsError, match=r"no local embedder is called 'e5-smal-v2', only: minilm.*did you mean e5"):
        named("e5-smal-v2")
    with pytest.raises(SettingsError, match="no local judge is called 'minilm'"):
        named("minilm", "judge")


def test_a_calibration_turns_a_cosine_into_a_probability() -> None:
    curve = PlattCurve(slope=10, intercept=-5, fitted_on="labels")
    assert curve.probability(0.5) == pytest.approx(0.5)
    assert curve.probability(0.9) > 0.9 > 0.1 > curve.probability(0.1)


@pytest.mark.parametrize("model", MODELS.values(), ids=lambda model: model.name)
def test_scales_keep_the_order_of_cosines(model: LocalModel) -> None:
    """They end at 1, and are nothing for the default model, which they are made for."""
    for scale in (model.text_scale, model.token_scale):
        assert scale.of(0.5) < scale.of(0.9) <= scale.of(1.0) <= 1.0
        assert scale.of(1.0) > 0.9
        assert scale.of(2.0) <= 1.0 or scale == NO_SCALE
        cosines = np.array([0.5, 0.9, 1.0], np.float32)
        assert scale.of_all(cosines) == pytest.approx([scale.of(float(one)) for one in cosines], abs=1e-6)
    assert (MODELS[DEFAULT].text_scale, MODELS[DEFAULT].token_scale) == (NO_SCALE, NO_SCALE)
