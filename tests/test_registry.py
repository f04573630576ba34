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
UNITS = {  # what a figure's name says it is measured in; longer endings first
    "_bytes_per_s": "B/s",
    "_flops": "FLOP/s",
    "_ops": "OP/s",
    "_per_hour": "USD/h",
    "_bytes": "B",
    "_hz": "Hz",
    "_w": "W",
    "_s": "s",
}
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
        ("date", "last year"),
        ("derivation", None),
        ("derivation", "__import__('os')"),
        ("colour", "blue"),
    ],
)
def test_schema_refuses(field, value):
    data = read("links.yaml")
    figure = data["entries"]["NVLink 4"]["figures"]["one_way_bytes_per_s"]
    jsonschema.validate(data, SCHEMA)
    if value is None:
        del figure[field]
    else:
        figure[field] = value
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(data, SCHEMA)


@pytest.mark.parametrize("field", ["source", "date", "per"])
def test_schema_wants_it_of_the_figure_or_of_the_entry(field):
    data = read("links.yaml")
    entry = data["entries"]["NVLink 4"]
    given = entry.pop(field)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(data, SCHEMA)
    for figure in entry["figures"].values():
        figure |= {"source": "A page", "date": "2026-12-01", field: given}
    jsonschema.validate(data, SCHEMA)


@pytest.mark.parametrize(("trait", "value"), [("mlp", "moe"), ("colour", "blue")])
def test_schema_refuses_traits(trait, value):
    data = read("models.yaml")
    data["entries"]["GPT-2 XL"]["traits"][trait] = value
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(data, SCHEMA)


@pytest.mark.parametrize(("entry", "figure"), ALL)
def test_every_figure_says_what_it_is(entry, figure):
    assert figure > 0
    assert figure.kind in {"spec", "derived", "measured", "assumed"}
    assert figure.source and figure.date
    if figure.derivation:
        assert evaluated(entry, figure) == figure
    assert figure.one_way or not (figure.unit == "B/s" and entry.kind == "link")
    assert figure.dense or figure.unit not in ("FLOP/s", "OP/s")
    for suffix, unit in UNITS.items():
        if figure.name.endswith(suffix):
            assert figure.unit == unit
            break
    else:
        assert figure.unit in ("count", "parameters", "tokens")


def test_every_reference_leads_somewhere():
    for kind in registry.FILES:
        for entry in registry.entries(kind):
            for ref in entry.refs:
                assert getattr(entry, ref).figures


def test_no_name_means_two_things():
    for kind in registry.FILES:
        spelled = [
            {registry._plain(name) for name in (entry.name, *entry.aliases)}
            for entry in registry.entries(kind)
        ]
        assert sum(map(len, spelled)) == len(set().union(*spelled))


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


def counted(m, active=False):
    """The parameters that follow from a model's figures and traits."""
    n = {name: int(figure) for name, figure in m.figures.items()}
    has, d, heads = m.traits, n["d_model"], n["heads"]
    norm = d * (2 if has["norm_bias"] else 1)

    def mlp(width):
        up = 2 if has["mlp"] in ("swiglu", "geglu") else 1
        biases = up * width + d if has["mlp_bias"] else 0
        return (up + 1) * d * width + biases

    if has["attention"] == "mla":
        rank, rope = n["kv_lora_rank"], n["d_qk_rope"]
        attention = d * n["q_lora_rank"] + n["q_lora_rank"]
        attention += n["q_lora_rank"] * heads * (n["d_qk_nope"] + rope)
        attention += d * (rank + rope) + rank
        attention += rank * heads * (n["d_qk_nope"] + n["d_v"]) + heads * n["d_v"] * d
    else:
        wide, narrow = heads * n["d_head"], n["kv_heads"] * n["d_head"]
        attention = 2 * d * wide + 2 * d * narrow
        if has["attention_bias"] or has.get("qkv_bias"):
            attention += wide + 2 * narrow + (d if has["attention_bias"] else 0)
        if has["positions"] == "relative":
            attention += d * wide
        if has.get("qk_norm"):
            attention += 2 * n["d_head"]
        if has.get("attention_sinks"):
            attention += heads
    dense = n.get("dense_layers", 0) if "experts" in n else n["layers"]
    blocks = n["layers"] * (attention + norm * (1 if has.get("parallel_block") else 2))
    blocks += dense * mlp(n["d_ffn"]) if dense else 0
    if "experts" in n:
        at_work = n["experts_per_token"] if active else n["experts"]
        layer = (at_work + n.get("shared_experts", 0)) * mlp(n["d_ffn_expert"])
        layer += n["experts"] * (d + (1 if has.get("router_bias") else 0))
        blocks += (n["layers"] - dense) * layer
    tables = n["vocabulary"] * d * (1 if has["tied"] or active else 2)
    tables += n.get("positions_learned", 0) * d
    return blocks + tables + norm * (2 if has.get("embedding_norm") else 1)


@pytest.mark.parametrize("name", registry.names("model"))
def test_parameters_follow_from_shape_and_traits(name):
    m = model(name)
    assert m.parameters == counted(m)
    if "experts" in m.figures:
        assert m.active_parameters == counted(m, active=True)
        assert m.active_parameters < m.parameters
    else:
        assert "active_parameters" not in m.figures


@pytest.mark.parametrize("name", registry.names("model"))
def test_parameters_are_close_to_the_printed_count(name):
    m = model(name)
    for figure in (m.parameters, m.figures.get("active_parameters")):
        if figure is not None and figure.printed:  # a name rounds: 7B may be 6.7
            assert figure == pytest.approx(figure.printed, rel=0.08)
    assert m.parameters.printed or m.name.startswith("GPT-2")  # the paper's were wrong


@pytest.mark.parametrize(
    ("trait", "other"),
    [("mlp", "gelu"), ("tied", True), ("norm_bias", True), ("positions", "relative")],
)
def test_a_wrong_trait_changes_the_count(trait, other):
    m = registry.Entry("model", "X", read("models.yaml")["entries"]["Llama 3 8B"])
    assert m.parameters == counted(m)
    m.traits[trait] = other
    assert m.parameters != counted(m)


SHAPE = ("layers", "d_model", "heads", "vocabulary", "context")
TRAITS = ("attention", "mlp", "norm", "positions", "tied", "attention_bias", "mlp_bias")


@pytest.mark.parametrize("name", registry.names("model"))
def test_a_model_is_complete(name):
    m = model(name)
    wanted = [*SHAPE, "parameters"]
    mla = m.traits["attention"] == "mla"
    wanted += ["kv_lora_rank", "d_v"] if mla else ["kv_heads", "d_head"]
    wanted += ["experts_per_token", "d_ffn_expert"] if "experts" in m.figures else []
    wanted += ["d_ffn"] if "experts" not in m.figures else []
    wanted += ["positions_learned"] if m.traits["positions"] == "learned" else []
    assert not set(wanted) - set(m.figures)
    assert not {*TRAITS, "norm_bias"} - set(m.traits)
    if not mla:
        kinds = {int(m.heads): "mha", 1: "mqa"}
        assert m.traits["attention"] == kinds.get(int(m.kv_heads), "gqa")


LEVELS = {
    "accelerator": ["memory_bytes", "memory_bytes_per_s", "bf16_dense_flops"],
    "node": ["accelerators"],
    "rack": ["accelerators"],
    "pod": ["accelerators"],
    "machine": ["memory_bytes", "memory_bytes_per_s", "fp32_dense_flops"],
    "stack": ["memory_bytes_per_s"],
}


@pytest.mark.parametrize("name", registry.names("hardware"))
def test_hardware_is_complete(name):
    entry = hardware(name)
    level = entry.traits["level"]
    assert not set(LEVELS[level]) - set(entry.figures)
    if "accelerators" in entry.figures:
        assert entry.accelerator.traits["level"] == "accelerator"
        assert entry.scale_up is entry.accelerator.scale_up
        assert entry.total("memory_bytes") > entry.accelerator.memory_bytes
    if "memory_bytes" in entry.figures:
        assert (entry.memory_bytes / 2**30).is_integer()


def test_totals_and_ridge():
    pod = hardware("DGX SuperPOD H100")
    assert pod.total("tdp_w") == 1016 * 700
    assert pod.total("power_w") == 127 * 10_200
    assert hardware("H100 SXM").ridge_flop_per_byte == pytest.approx(295.3, abs=0.1)
    with pytest.raises(AttributeError, match="has no 'ridge_flop_per_byte'"):
        print(hardware("laptop CPU").ridge_flop_per_byte)


@pytest.mark.parametrize("name", ["H100 SXM", "h100sxm", " H100  sxm5 ", "H100"])
def test_case_and_spaces_do_not_matter(name):
    assert hardware(name) is hardware("H100 SXM")


@pytest.mark.parametrize(
    ("ask", "name", "hint"),
    [
        (hardware, "H10O SXM", r"no hardware 'H10O SXM'.*did you mean 'H100 SXM'"),
        (link, "InfiniBand NDF", "did you mean 'InfiniBand NDR'"),
        (hardware, "NVLink 4", r"did you mean link\('NVLink 4'\)"),
        (model, "zzz", r"it has GPT-2 small, .* and \d+ more$"),
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
    assert hardware("H100 SXM").price_per_hour.text == "2.79 USD/h"
    memory = {"unit": "B", "kind": "derived", "source": "ours", "date": "2026-12-01"}
    assert Figure(13 * 2**40, **memory).text == "13 TiB"
    assert Figure(2**20, **memory).text == "0.0009766 GiB"
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
