"""registry: every constant says what it is, adds up, and is easy to ask for."""

import copy
import json
import pickle
import subprocess
import sys
from pathlib import Path

import jsonschema
import pytest
import yaml

from aiinfra import registry
from aiinfra.registry import Figure, UnknownName, hardware, link, model

FOLDER = Path(registry.__file__).parent
SCHEMA = json.loads((FOLDER / "schema.json").read_text(encoding="utf-8"))
ALL = [
    pytest.param(entry, figure, id=f"{entry.name}-{figure.name}")
    for kind in registry.FILES
    for entry in registry.entries(kind)
    for figure in entry.figures.values()
]


def evaluated(entry, figure):
    """The derivation's value; by the schema it has only names, digits, operators."""
    known = {name: int(f) if f.is_integer() else f for name, f in entry.figures.items()}
    known |= {ref: getattr(entry, ref) for ref in entry.refs}
    return float(eval(figure.derivation, {"__builtins__": {}}, known))


def read(name):
    data = yaml.safe_load((FOLDER / name).read_text(encoding="utf-8"))
    return json.loads(json.dumps(data, default=str))  # dates as JSON has them


@pytest.mark.parametrize("name", registry.FILES.values())
def test_files_match_the_schema(name):
    jsonschema.validate(read(name), SCHEMA)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("kind", "rumour"),
        ("unit", "GB/s"),
        ("value", "450e9"),  # YAML 1.1 reads 450e9 as text: it must be 450.0e+9
        ("value", -1),
        ("source", None),
        ("date", "last year"),
        ("derivation", None),
        ("per", None),
        ("colour", "blue"),
    ],
)
def test_schema_refuses(field, value):
    data = read("links.yaml")
    figure = data["entries"]["NVLink 4"]["figures"]["one_way_bytes_per_s"]
    if value is None:
        del figure[field]
    else:
        figure[field] = value
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(data, SCHEMA)


@pytest.mark.parametrize(("entry", "figure"), ALL)
def test_every_figure_says_what_it_is(entry, figure):
    assert figure > 0
    assert figure.kind in {"spec", "derived", "measured", "assumed"}
    assert figure.source and figure.date
    if figure.derivation:
        assert evaluated(entry, figure) == figure
    if figure.unit == "B/s" and entry.kind == "link":
        assert figure.one_way and figure.name.startswith("one_way")
    if figure.unit == "FLOP/s":
        assert figure.dense and "dense" in figure.name


def test_every_reference_leads_somewhere():
    for kind in registry.FILES:
        for entry in registry.entries(kind):
            for ref in entry.refs:
                assert getattr(entry, ref).figures


def test_no_name_means_two_things():
    for kind in registry.FILES:
        names = [
            "".join(name.lower().split())
            for entry in registry.entries(kind)
            for name in (entry.name, *entry.aliases)
        ]
        assert len(names) == len(set(names))


def test_published_figures():
    h100 = hardware("H100 SXM")
    # 132 SMs, 4 tensor cores, 512 fused multiply-adds a clock, 1.83 GHz
    by_hand = 132 * 4 * 512 * 2 * 1.83e9
    assert by_hand == pytest.approx(h100.bf16_dense_flops, rel=1e-4)
    ridge = h100.bf16_dense_flops / h100.memory_bytes_per_s
    assert ridge == pytest.approx(295, rel=3e-3)
    node = hardware("DGX H100")
    assert node.scale_up.one_way_bytes_per_s / node.scale_out.one_way_bytes_per_s == 9
    power = node.accelerators * node.accelerator.tdp_w
    assert node.power_w / power == pytest.approx(1.82, rel=5e-3)


@pytest.mark.parametrize("name", ["Llama 3 8B", "Llama 3 70B", "Llama 3 405B"])
def test_llama_parameters_follow_from_the_shape(name):
    m = model(name)
    d, kv = int(m.d_model), int(m.kv_heads * m.d_head)
    block = 2 * d * d + 2 * d * kv + 3 * d * int(m.d_ffn) + 2 * d
    total = int(m.layers) * block + d + 2 * int(m.vocabulary) * d
    assert total == m.parameters


@pytest.mark.parametrize("name", ["GPT-2 small", "GPT-2 XL"])
def test_gpt2_parameters_follow_from_the_shape(name):
    m = model(name)
    d, f = int(m.d_model), int(m.d_ffn)
    attention = 4 * d * d + 4 * d
    mlp = 2 * d * f + f + d
    total = int(m.layers) * (attention + mlp + 4 * d) + 2 * d
    assert total + (int(m.vocabulary) + 1024) * d == m.parameters


@pytest.mark.parametrize("name", ["H100 SXM", "h100sxm", " H100  sxm5 ", "H100"])
def test_case_and_spaces_do_not_matter(name):
    assert hardware(name) is hardware("H100 SXM")


@pytest.mark.parametrize(
    ("ask", "name", "hint"),
    [
        (hardware, "H10O SXM", r"no hardware 'H10O SXM'.*did you mean 'H100 SXM'"),
        (link, "InfiniBand NDF", "did you mean 'InfiniBand NDR'"),
        (hardware, "NVLink 4", r"did you mean link\('NVLink 4'\)"),
        (model, "zzz", "it has GPT-2 small, "),
        (model, "", "it has GPT-2 small, "),
    ],
)
def test_an_unknown_name_offers_the_nearest(ask, name, hint):
    with pytest.raises(UnknownName, match=hint):
        ask(name)


def test_a_model_has_traits():
    llama = model("Llama 3 8B")
    assert llama.traits["mlp"] == "swiglu" and llama.traits["tied"] is False
    assert "traits: attention: gqa, mlp: swiglu" in repr(llama)


def test_an_entrys_source_is_that_of_its_figures():
    data = {
        "what": "a model",
        "source": "A report",
        "date": "2026-12-01",
        "shape": {"layers": 3},
        "figures": {
            "context": {"value": 8, "unit": "count", "kind": "spec", "source": "A card"}
        },
    }
    entry = registry.Entry("model", "X", data)
    assert (entry.layers, entry.layers.source) == (3, "A report")
    assert (entry.context.source, entry.context.date) == ("A card", "2026-12-01")
    del data["source"]
    with pytest.raises(ValueError, match=r"models.yaml: X: layers: .*source"):
        registry.Entry("model", "X", data)


def test_an_unknown_attribute_lists_what_there_is():
    with pytest.raises(AttributeError, match=r"H100 SXM has no 'flops'; it has bf16_"):
        print(hardware("H100 SXM").flops)
    assert "bf16_dense_flops" in dir(hardware("H100 SXM"))
    assert not hasattr(link("NVLink 4"), "tdp_w")


def test_a_figure_is_a_float():
    figure = link("NVLink 4").one_way_bytes_per_s
    assert figure == 450e9 and type(figure * 2) is float
    assert f"{figure:.1e}" == "4.5e+11"
    assert json.dumps(figure) == "450000000000.0"
    assert str(figure) == "450 GB/s (derived, one-way, per card)"
    assert range(model("GPT-2 XL").layers)[-1] == 47
    with pytest.raises(TypeError, match="latency_s is not a whole number"):
        range(link("NVLink 4").latency_s)


@pytest.mark.parametrize("again", [copy.copy, copy.deepcopy, lambda x: x])
def test_figures_and_entries_travel(again):
    figure = pickle.loads(pickle.dumps(again(hardware("H200").memory_bytes)))
    assert isinstance(figure, Figure) and vars(figure) == vars(
        hardware("H200").memory_bytes
    )
    entry = pickle.loads(pickle.dumps(again(link("NVLink 4"))))
    assert entry is link("NVLink 4")


def test_text_is_for_people():
    assert hardware("A100 SXM 80GB").memory_bytes.text == "80 GiB"
    assert hardware("B200").bf16_dense_flops.text == "2.25 PFLOP/s"
    assert link("NVLink 4").latency_s.text == "3.4 µs"
    assert model("Llama 3 405B").parameters.text == "405.9 billion parameters"
    assert "scale_up" in repr(hardware("H100 SXM"))


def test_a_bad_entry_is_named():
    data = {"what": "?", "figures": {"tdp_w": {"value": 3, "unit": "W"}}}
    with pytest.raises(ValueError, match=r"hardware.yaml: X: tdp_w: .*kind"):
        registry.Entry("hardware", "X", data)


def test_needs_only_yaml():
    code = (
        "import sys\nbefore = set(sys.modules)\nimport aiinfra.registry\n"
        "aiinfra.registry.hardware('H100')\n"
        "new = {name.split('.')[0] for name in set(sys.modules) - before}\n"
        "print(*sorted(new - set(sys.stdlib_module_names)))"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    new = {name for name in out.stdout.split() if "cython" not in name}  # yaml's own
    assert new == {"_yaml", "aiinfra", "yaml"} or new == {"aiinfra", "yaml"}, out
