"""What passes between the rooms: plain values, whole; anything else, not at all."""

import copy
import json
import math
from dataclasses import dataclass
from fractions import Fraction
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from aiinfra.launch import Link
from aiinfra.tools.grading.examiner import Desk
from aiinfra.tools.grading.student import Student
from aiinfra.tools.grading.wire import describe, objects_in, put_back, restore
from aiinfra.trace import Event

PLAIN = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.complex_numbers(allow_nan=False)
    | st.text()
    | st.binary()
    | st.fractions(),
    lambda inner: (
        st.lists(inner) | st.tuples(inner) | st.dictionaries(st.text(), inner)
    ),
    max_leaves=20,
)


def there_and_back(value):
    """The value after a journey between the rooms."""
    text = json.loads(json.dumps(describe(value, pytest.fail)))
    return restore(text, pytest.fail)


def same(left, right) -> bool:
    """Equal, and of equal types all the way down."""
    if type(left) is not type(right):
        return False
    if isinstance(left, list | tuple):
        return len(left) == len(right) and all(map(same, left, right))
    if isinstance(left, dict):
        return list(left) == list(right) and same(
            list(left.values()), list(right.values())
        )
    return left == right


@given(PLAIN)
def test_a_plain_value_arrives_whole(value):
    assert same(there_and_back(value), value)


@pytest.mark.parametrize(
    "value",
    [
        {1, 2},
        frozenset({"a"}),
        range(3, 9, 2),
        slice(None, 4),
        10**400,
        Fraction(1, 3),
        float("inf"),
        torch.bfloat16,
        Link(gbps=8, us=2),
        Event(0, "link", "send", 0.0, 1.5, "comm"),
    ],
)
def test_so_do_these(value):
    assert same(there_and_back(value), value)
    assert math.isnan(there_and_back(math.nan))


@pytest.mark.parametrize(
    "value",
    [
        torch.arange(6).reshape(2, 3).T,
        torch.tensor(2.5, requires_grad=True),
        torch.empty(0, 3),
        torch.ones(3, dtype=torch.bfloat16),
        torch.ones(2, dtype=torch.float8_e4m3fn),
        torch.tensor([True, False]),
        torch.nn.Parameter(torch.ones(2)),
    ],
)
def test_a_tensor_arrives_with_its_dtype_and_shape(value):
    arrived = there_and_back(value)
    assert arrived.dtype == value.dtype and arrived.shape == value.shape
    assert torch.equal(arrived.float(), value.detach().float())


@pytest.mark.parametrize(
    "value",
    [np.arange(6.0).reshape(2, 3).T, np.float32(2.5), np.zeros((0, 2), np.int8)],
)
def test_an_array_arrives_with_its_dtype_and_shape(value):
    arrived = there_and_back(value)
    assert type(arrived) is type(value) and arrived.dtype == value.dtype
    np.testing.assert_array_equal(arrived, value)


class Liar(float):
    """A number that claims to equal everything."""

    def __eq__(self, other):
        return True

    __hash__ = float.__hash__


@dataclass
class Foreign:
    """An object of a class that is not the package's."""

    x: int


@pytest.mark.parametrize(
    "value", [Liar(1), Foreign(1), print, math, np.array([None, "x"], dtype=object)]
)
def test_what_is_not_plain_stays_and_a_number_stands_for_it(value):
    kept = []
    text = describe([value], lambda part: kept.append(part) or ["kept", 7])
    assert kept == [value]
    assert restore(text, lambda *found: found) == [("kept", 7)]


def test_an_object_that_came_from_there_comes_back_as_itself():
    tensor, inner = torch.ones(2), [1]
    sent = (tensor, {"a": inner, "b": 2.5}), {"again": tensor}
    arrived = copy.deepcopy(sent)
    here, there = objects_in(sent), objects_in(arrived)
    assert len(here) == len(there) == 4
    given = {id(each): number for number, each in enumerate(there)}
    text = describe([arrived[0][1]["a"], arrived[1]["again"]], pytest.fail, given)
    back = restore(text, lambda _, number: here[number])
    assert back[0] is inner and back[1] is tensor


class SameProcess:
    """A line to a student's room that is in this process."""

    def __init__(self, student):
        self.student = student

    def send(self, message):
        self.answer = json.loads(json.dumps(self.student.answer(message["ask"])))

    def receive(self):
        return self.answer


def test_a_call_may_reorder_objects_and_leaves_them_the_examiners():
    def reverse(parts, table):
        parts.reverse()
        table["first"] = parts[0]
        return parts[0]

    cells = SimpleNamespace(names={"reverse": reverse}, printed=lambda: "")
    desk = Desk(SameProcess(Student(cells)))
    one, two = Foreign(1), Foreign(2)
    parts, table = [one, two], {}
    found = desk.get("reverse")[1](parts, table)
    assert found is two
    assert parts[0] is two and parts[1] is one and table["first"] is two


@pytest.mark.parametrize(
    "text",
    [
        7,
        {"a": 1},
        [],
        ["unknown", 1],
        ["int", "x"],
        ["object", "os", "system", ["dict", []]],
        ["object", "aiinfra.tools.sandbox", "Sandbox", ["dict", []]],
        ["object", "aiinfra.launch", "launch", ["dict", []]],
        ["object", "aiinfra.launch", "os.system", ["dict", []]],
        ["array", "object", [1], ""],
        ["array", "float64", [9], ""],
        ["tensor", "load", [1], ""],
        ["dtype", "load"],
        ["set", [["list", []]]],
        ["list", 3],
    ],
)
def test_a_text_that_describes_no_value_is_refused(text):
    with pytest.raises(ValueError):
        restore(text, pytest.fail)


def test_a_value_that_holds_itself_is_refused():
    loop = []
    loop.append(loop)
    with pytest.raises(ValueError, match="nested"):
        describe(loop, pytest.fail)


def test_a_parameter_in_a_list_stays_the_parameter_it_was():
    parameter = torch.nn.Parameter(torch.zeros(2))
    old = [parameter, parameter]
    put_back(old, [torch.ones(2), None])
    assert old[0] is parameter and parameter.tolist() == [1, 1] and old[1] is None


def test_what_a_call_changed_is_put_back_into_the_same_objects():
    array, tensor, inner = np.zeros(2), torch.zeros(2, requires_grad=True), [1]
    table = {"a": inner, "gone": 0}
    old = [array, [tensor, (inner, array)], table]
    new = [
        np.array([1.0, 2.0]),
        [torch.ones(2), ([1, 9], np.array([1.0, 2.0]))],
        {"a": [1, 9], "new": 3},
    ]
    put_back(old, new)
    assert array.tolist() == [1, 2] and tensor.tolist() == [1, 1]
    assert inner == [1, 9] and table == {"a": [1, 9], "new": 3}
    assert old[0] is array and old[1][0] is tensor and old[2]["a"] is inner
