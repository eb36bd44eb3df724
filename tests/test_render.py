"""Generated files: the same bytes everywhere, a header, nothing of the machine, nothing of `gen`."""

import ast
import hashlib
import itertools
import json
import os
import random
import re
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import jinja2
import pytest
from hypothesis import given
from hypothesis import strategies as st
from ruff import find_ruff_bin

from gen.families.sparse_mla_decode import plan
from gen.families.sparse_mla_decode.options import Combine, Layout, LseBase, LseEmpty, Sink
from gen.pipeline import Prepared, prepare
from gen.render import DSL_PACKAGES, MANIFEST, SOURCE, render, template_folder
from gen.spec import Backend, Fixed, SpecError, SplitWord, load

ROOT = Path(__file__).parents[1]
BUILD, SPECS = ROOT / "build", ROOT / "specs"
SHIPPED = SPECS / "deepseek_v4_flash/decode_h8.yaml"
BINARIES = {".ptx", ".cubin", ".cu"}

WRITE_ALL = """
import sys
from pathlib import Path
from gen.pipeline import prepare
from gen.render import write
for item in prepare([Path(sys.argv[2])]):
    write(item.rendered.files, Path(sys.argv[1]) / item.spec.name)
"""


@pytest.fixture(scope="module")
def prepared() -> list[Prepared]:
    return prepare([SPECS])


def _tree(folder: Path) -> dict[str, bytes]:
    files = [path for path in folder.rglob("*") if path.is_file() and path.suffix not in BINARIES]
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


def test_build_holds_exactly_what_the_specs_give(prepared):
    texts = {
        f"{item.spec.name}/{name}": text for item in prepared for name, text in item.rendered.files.items()
    }
    assert _tree(BUILD) == {path: text.encode() for path, text in texts.items()}
    assert {path.name for path in BUILD.iterdir()} == {item.spec.name for item in prepared}
    assert all(item.is_current(BUILD) for item in prepared)


def test_bytes_depend_on_no_process_folder_or_spelling_of_the_path(prepared, tmp_path):
    runs = [
        ("0", ROOT, "specs"),
        ("4242", tmp_path, str(SPECS)),
        ("1", SPECS / "deepseek_v4_flash", ".."),
        ("2", SPECS, "../specs/deepseek_v4_flash/decode_h8.yaml"),
        ("3", SHIPPED.parent, "decode_h8.yaml"),
    ]
    processes = []
    for at, (seed, cwd, spec) in enumerate(runs):
        out = tmp_path / str(at)
        env = {
            **os.environ,
            "PYTHONHASHSEED": seed,
            "TZ": "Asia/Tokyo",
            "LC_ALL": "C",
            "PYTHONPATH": str(ROOT),
        }
        command = [sys.executable, "-c", WRITE_ALL, str(out), spec]
        processes.append((out, subprocess.Popen(command, cwd=cwd, env=env)))
    committed = _tree(BUILD)
    for out, process in processes:
        assert process.wait() == 0
        written = _tree(out)
        assert written == {path: committed[path] for path in written}
    sizes = [len(list(out.iterdir())) for out, _ in processes]
    assert sizes == [len(prepared), len(prepared), len(prepared), 1, 1]


def test_header_and_manifest_name_where_the_file_comes_from(prepared):
    for item in prepared:
        backend = str(item.spec.backend)
        template = template_folder() / backend / item.plan.template
        template_hash = hashlib.sha256(template.read_bytes()).hexdigest()
        dsl = DSL_PACKAGES[backend]
        source, manifest = item.rendered.files[SOURCE], json.loads(item.rendered.files[MANIFEST])
        spec = str(item.spec.path.relative_to(ROOT))
        assert source.splitlines()[:4] == [
            "# SPDX-License-Identifier: Apache-2.0",
            f"# Generated from {spec} (sha256 {item.spec.digest[:16]})",
            f"# through templates/{backend}/{template.name} (sha256 {template_hash[:16]})",
            f"# by sm120-kernelgen {metadata.version('sm120-kernelgen')} for "
            f"{dsl} {metadata.version(dsl)}. Edit the spec and run `kgen build`.",
        ]
        assert manifest["spec"] == spec
        assert manifest["spec_sha256"] == item.spec.digest
        assert manifest["template_sha256"] == template_hash
        assert manifest["source_sha256"] == hashlib.sha256(source.encode()).hexdigest()
        assert manifest["kernels"] == list(item.plan.kernels)
        assert manifest["planned_shared_bytes"] == item.plan.shared_bytes
        assert manifest["target"] == str(item.spec.target)


def test_nothing_of_the_machine_is_in_a_generated_file(prepared, tmp_path):
    private = tmp_path / "private_folder" / "specs" / "mine"
    private.mkdir(parents=True)
    inside, outside = private / "x.yaml", tmp_path / "y.yaml"
    inside.write_bytes(SHIPPED.read_bytes())
    outside.write_text(SHIPPED.read_text().replace("dsv4_flash_decode_h8", "other"))
    copies = prepare([inside, outside])
    for item in [*prepared, *copies]:
        for text in item.rendered.files.values():
            for word in (str(ROOT), str(Path.home()), str(tmp_path), "private_folder", sys.prefix):
                assert word not in text
    named = [item.rendered.files[SOURCE].splitlines()[1].split()[3] for item in copies]
    assert named == ["specs/mine/x.yaml", "y.yaml"]


def test_committed_files_pass_the_project_s_lint_and_format():
    sources = sorted(map(str, BUILD.glob("*/kernel.py")))
    for command in (["check"], ["format", "--check"]):
        command = [find_ruff_bin(), *command, "--no-cache", *sources]
        result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
        assert result.returncode == 0, result.stdout


OPTIONS = {
    "layout": Layout, "sink": Sink, "lse_base": LseBase, "lse_empty": LseEmpty, "lengths": (True, False),
    "combine": Combine, "split": (SplitWord.NONE, SplitWord.WAVES, Fixed(fixed=3)), "extra": (True, False),
    "heads": (8, 24, 64), "fixed_sizes": (True, False),
}  # fmt: skip


def _variant(layout, sink, lse_base, lse_empty, lengths, combine, split, extra, heads, fixed_sizes):
    spec = load(SHIPPED)
    shapes: dict = {"heads": heads}
    if not extra:
        shapes |= {"extra_page": None, "extra_width": None}
    if fixed_sizes:
        shapes |= {"tokens": 3, "main_width": 128} | ({"extra_page": 64, "extra_width": 64} if extra else {})
    features = {
        "sink": sink,
        "lse_base": lse_base,
        "lse_empty": lse_empty,
        "lengths": lengths,
        "combine": combine,
    }
    changes = {"shapes": spec.shapes.model_copy(update=shapes), "layout": layout, "split": split}
    changes["features"] = spec.features.model_copy(update=features)
    return spec.model_copy(update=changes)


@pytest.fixture(scope="module")
def variants(tmp_path_factory) -> Path:
    """Sources of 60 of the 5184 combinations of options, the same each time; most pairs of values occur."""
    folder = tmp_path_factory.mktemp("variants")
    combinations = list(itertools.product(*OPTIONS.values()))
    for at, values in enumerate(random.Random(0).sample(combinations, 60)):
        spec = _variant(*values)
        (folder / f"kernel_{at}.py").write_text(render(spec, plan(spec)).files[SOURCE])
    return folder


def test_every_option_gives_a_file_that_stands_alone(variants):
    for path in variants.iterdir():
        tree = ast.parse(path.read_text())
        imports = [node for node in ast.walk(tree) if isinstance(node, ast.Import | ast.ImportFrom)]
        assert [ast.unparse(node) for node in imports] == ["import tilelang.language as T"]
        functions = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
        (kernels,) = [node.value for node in tree.body if ast.unparse(node).startswith("KERNELS = ")]
        assert {ast.unparse(name) for name in kernels.elts} == functions
        assert not re.search(r"\{\{|\{%|\bNone\b|Undefined", path.read_text())


def test_every_option_gives_a_file_without_unused_names(variants):
    # Of ruff's rules: F and ARG find unused imports, variables and arguments, SIM redundant branches.
    command = [
        find_ruff_bin(),
        "check",
        "--isolated",
        "--select=F,E9,ARG,SIM",
        "--no-cache",
        str(variants),
    ]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout
    for path in variants.iterdir():
        tree = ast.parse(path.read_text())
        assigned = {
            name.id
            for node in tree.body
            if isinstance(node, ast.Assign)
            for name in ast.walk(node.targets[0])
            if isinstance(name, ast.Name)
        }
        read = {n.id for n in ast.walk(tree) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)}
        assert assigned - read <= {"KERNELS", "PASS_CONFIGS"}, path.name


def _rendered_with(text: str):
    spec = load(SHIPPED)
    tile_plan = plan(spec)
    return render(spec, tile_plan, templates=jinja2.DictLoader({tile_plan.template: text}))


def test_an_unknown_variable_in_a_template_fails():
    assert "x = 8" in _rendered_with("x = {{ heads }}").files[SOURCE]
    for text in ("x = {{ nonsense }}", "x = {{ tile.nonsense }}", "{% if nonsense %}x = 1{% endif %}"):
        with pytest.raises(jinja2.UndefinedError, match="nonsense"):
            _rendered_with(text)


def test_a_template_that_gives_no_python_fails():
    with pytest.raises(ValueError, match="not Python"):
        _rendered_with("def {{ heads }}(:")


def test_a_template_s_text_is_in_the_header():
    one, two = (_rendered_with(f"x = {n}").files[SOURCE].splitlines()[2] for n in (1, 2))
    assert one != two


def test_a_backend_without_a_template_is_refused():
    spec = load(SHIPPED).model_copy(update={"backend": Backend.CUTLASS})
    with pytest.raises(SpecError) as caught:
        render(spec, plan(spec))
    assert (caught.value.field, caught.value.fix) == ("backend", "use tilelang")


NAMES = st.from_regex(r"\A[a-z][a-z0-9_]{0,80}\Z") | st.text(max_size=70) | st.sampled_from(
    ["..", "../x", "/etc/x", "a/b", "con", "x.py", "__init__", "x\nimport os", "x'", "{{ 7 }}", "import", "."]
)  # fmt: skip


@given(name=NAMES)
def test_no_name_leaves_its_folder_or_enters_the_code(tmp_path_factory, name):
    path = tmp_path_factory.getbasetemp() / "name.yaml"
    path.write_text(SHIPPED.read_text().replace("dsv4_flash_decode_h8", json.dumps(name)))
    build = Path("/somewhere/build")
    try:
        (item,) = prepare([path])
    except SpecError:
        return
    source = item.source(build)
    assert source.parent.parent == build
    assert ".." not in source.parts
    assert set(item.rendered.files) == {SOURCE, MANIFEST}
    plain = prepare([SHIPPED])[0].rendered.files[SOURCE].splitlines()
    assert item.rendered.files[SOURCE].splitlines()[2:] == plain[2:], "only the header's spec may differ"


@pytest.mark.parametrize(
    "file",
    [b"x\nimport os\n.yaml", b'x"""\r.yaml', b"x\xff.yaml", "x\u202e\u2028y.yaml".encode(), b"{{ 7 }}.yaml"],
)
def test_no_file_name_enters_the_code(tmp_path, file):
    path = tmp_path / os.fsdecode(file)
    path.write_bytes(SHIPPED.read_bytes())
    (item,) = prepare([path])
    text = item.rendered.files[SOURCE]
    header = text.splitlines()[1]
    assert header.startswith("# Generated from ")
    assert header.isprintable()
    assert (
        text.encode().splitlines()[2:]
        == prepare([SHIPPED])[0].rendered.files[SOURCE].encode().splitlines()[2:]
    )
    assert json.loads(item.rendered.files[MANIFEST])["spec"] in header
