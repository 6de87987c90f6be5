"""Trees read from LightGBM's text: what they add up to, and that nothing crooked is taken for a model."""

from __future__ import annotations

from math import exp

import pytest

from fusion.lib.gbdt import Trees, digest

MODEL = """tree
version=v4
num_class=1
calibration=2 -1
feature_names=bm25 dense
feature_infos=[0:1] [0:1]

Tree=0
num_leaves=3
num_cat=0
split_feature=0 1
threshold=0.5 0.25
decision_type=2 8
left_child=1 -1
right_child=-2 -3
leaf_value=0.1 0.7 0.3
shrinkage=1

Tree=1
num_leaves=1
num_cat=0
leaf_value=0.05
shrinkage=1

end of trees

feature_importances:
bm25=1
"""


def test_a_row_gets_the_leaf_of_each_tree() -> None:
    """Tree 0: bm25 ≤ .5 goes on to dense ≤ .25 (.1, else .3), more is .7; tree 1 is always .05. A value at the
    threshold goes left."""
    rows = [{"bm25": 0.6, "dense": 0.0}, {"bm25": 0.5, "dense": 0.25}, {"bm25": 0.1, "dense": 0.9}]
    assert Trees.parse(MODEL).sums(rows).tolist() == pytest.approx([0.75, 0.15, 0.35])


def test_what_is_missing_goes_where_the_tree_sends_it() -> None:
    """Node 0 had nothing missing in training, so it takes 0, which is ≤ .5; node 1 sends the missing right: .3."""
    assert Trees.parse(MODEL).sums([{}]).tolist() == pytest.approx([0.35])


def test_a_node_may_ask_only_whether_a_value_is_there() -> None:
    """At infinity every value goes left, .1; the missing goes right, .7; with tree 1's .05 that is .15 and .75."""
    there = MODEL.replace("threshold=0.5 0.25", "threshold=inf 0.25").replace("decision_type=2 8", "decision_type=8 8")
    assert Trees.parse(there).sums([{"bm25": 9.0, "dense": 0.0}, {"dense": 0.0}]).tolist() == pytest.approx(
        [0.15, 0.75]
    )


def test_shares_keep_the_order_and_stay_between_0_and_1() -> None:
    """The calibration is 2x - 1: a sum of .75 is 1 / (1 + e^-.5)."""
    trees = Trees.parse(MODEL)
    low, high = trees.shares([{"bm25": 0.1, "dense": 0.0}, {"bm25": 0.9, "dense": 0.0}])
    assert (low, high) == (pytest.approx(1 / (1 + exp(0.7))), pytest.approx(1 / (1 + exp(-0.5))))
    assert trees.shares([]) == []


@pytest.mark.feature("a learned model is data: an invalid one is refused, and our evaluation equals LightGBM's")
@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("tree\nversion", "forest\nversion", "no text of a LightGBM model"),
        ("feature_names=bm25 dense\n", "", "no text of a LightGBM model"),
        ("left_child=1 -1", "left_child=0 -1", "no tree"),
        ("left_child=1 -1", "left_child=9 -1", "no tree"),
        ("right_child=-2 -3", "right_child=-2 -2", "no tree"),
        ("split_feature=0 1", "split_feature=0 2", "does not name"),
        ("split_feature=0 1", "split_feature=0", "entries of split_feature"),
        ("threshold=0.5 0.25", "threshold=nan 0.25", "not a finite number"),
        ("leaf_value=0.1 0.7 0.3", "leaf_value=0.1 inf 0.3", "not a finite number"),
        ("decision_type=2 8", "decision_type=1 8", "does not name"),
        ("decision_type=2 8", "decision_type=4 8", "zero for missing"),
        ("threshold=0.5 0.25\n", "", "lacks 'threshold'"),
        ("num_cat=0\nsplit", "num_cat=1\nsplit", "by category"),
        ("calibration=2 -1", "calibration=2", "not enough values"),
    ],
)
def test_a_crooked_model_is_refused(old: str, new: str, says: str) -> None:
    """A cycle, a node twice, an unknown feature, no number: each raises ValueError and asks nothing."""
    assert old in MODEL
    with pytest.raises(ValueError, match=says):
        Trees.parse(MODEL.replace(old, new, 1))


def test_the_digest_tells_models_apart() -> None:
    """One digit of one leaf makes another model."""
    assert digest(MODEL) != digest(MODEL.replace("0.05", "0.06"))
    assert len(digest(MODEL)) == 12
