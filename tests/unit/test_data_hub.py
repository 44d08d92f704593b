"""`hf:` data sets: found, their columns mapped, and every way of not having one told with a remedy."""

import sys
from types import ModuleType, SimpleNamespace

import pytest
from huggingface_hub import constants
from PIL import Image

from gradscope.config.schema import DataSettings
from gradscope.errors import ExitCode, GradscopeError
from gradscope.worker.contract import DataSpec
from gradscope.worker.data import build_dataset
from gradscope.worker.data.hub import choose_columns

CLASSIFY = DataSpec(task="image-class", image_size=16, classes=9)
CAUSAL = DataSpec(task="causal-lm", sequence_length=8, vocabulary=320)
MASKED = DataSpec(task="masked-lm", sequence_length=8, vocabulary=320, mask_token=257)
CAPTION = DataSpec(task="image-caption", image_size=16, sequence_length=8, vocabulary=320)


class Table(list):
    def __init__(self, rows, features=None):
        super().__init__(rows)
        self.column_names = list(rows[0])
        self.features = features or dict.fromkeys(self.column_names, SimpleNamespace())


@pytest.fixture
def package(monkeypatch):
    """A stand-in for the package datasets that records its calls."""
    module = ModuleType("datasets")
    module.calls = []
    module.table = Table([{"text": "ab"}])

    def load_dataset(path, name=None, *, split):
        module.calls.append(("load_dataset", path, name, split))
        if isinstance(module.table, Exception):
            raise module.table
        return module.table

    def load_from_disk(path):
        module.calls.append(("load_from_disk", path))
        return module.table

    module.load_dataset = load_dataset
    module.load_from_disk = load_from_disk
    monkeypatch.setitem(sys.modules, "datasets", module)
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    return module


def build(spec, name="hf:some/thing", **options):
    return build_dataset(DataSettings(name=name, options=options), spec, 0)


def test_text_becomes_bytes(package):
    rows = build(CAUSAL, split="test", config="plain")
    assert package.calls == [("load_dataset", "some/thing", "plain", "test")]
    assert rows[0]["input_ids"].tolist() == [97, 98, 258, 256, 256, 256, 256, 256]
    assert len(rows) == 1


def test_an_empty_text_still_has_a_token_to_guess(package):
    package.table = Table([{"text": ""}])
    assert build(MASKED)[0]["labels"].tolist() == [258] + [-100] * 7


def test_images_and_labels_are_mapped(package):
    image = Image.new("RGB", (5, 9), (255, 0, 0))
    package.table = Table([{"img": image, "fine_label": 4}])
    row = build(CLASSIFY)[0]
    assert (row["pixel_values"].shape, int(row["labels"])) == ((3, 16, 16), 4)


def test_of_several_captions_the_first_is_used(package):
    package.table = Table([{"image": Image.new("L", (4, 4)), "captions": ["cat", "a cat"]}])
    assert build(CAPTION)[0]["input_ids"].tolist()[:4] == [99, 97, 116, 258]


def test_a_folder_is_loaded_as_what_it_is(package, tmp_path):
    build(CAUSAL, f"hf:{tmp_path}")
    (tmp_path / "dataset_dict.json").write_text("{}")
    package.table = {"train": Table([{"text": "ab"}])}
    build(CAUSAL, f"hf:{tmp_path}")
    assert package.calls == [("load_dataset", str(tmp_path), None, "train"), ("load_from_disk", str(tmp_path))]


@pytest.mark.parametrize(
    ("row", "spec", "message"),
    [
        ({"image": "path.png", "label": 0}, CLASSIFY, "column 'image' holds str, no image"),
        ({"image": Image.new("L", (4, 4)), "label": "cat"}, CLASSIFY, "column 'label' holds str, no class number"),
        ({"image": Image.new("L", (4, 4)), "label": 9}, CLASSIFY, "at least 10 classes, and the model has 9"),
        ({"text": None}, CAUSAL, "column 'text' holds NoneType, no text"),
    ],
)
def test_a_value_of_another_type_is_told(package, row, spec, message):
    package.table = Table([row])
    with pytest.raises(GradscopeError, match=message) as caught:
        build(spec)[0]
    assert caught.value.hint


def test_too_many_classes_are_told_before_the_first_row(package):
    package.table = Table([{"image": None, "label": 0}], {"image": None, "label": SimpleNamespace(num_classes=100)})
    with pytest.raises(GradscopeError, match="at least 100 classes") as caught:
        build(CLASSIFY)
    assert caught.value.hint == "set model.options.num_labels = 100"


def test_columns_are_the_named_ones_or_the_usual_ones():
    present = ["id", "content", "caption", "img"]
    assert choose_columns("x", "image-caption", present, {}).text == "caption"
    assert choose_columns("x", "image-caption", present, {"text": "content"}).text == "content"
    assert choose_columns("x", "image-caption", present, {}).image == "img"
    with pytest.raises(GradscopeError, match="no column that looks like label; it has id, content, caption, img"):
        choose_columns("x", "image-class", present, {})
    with pytest.raises(GradscopeError, match=r"data.options.text: x has no column 'contents'") as caught:
        choose_columns("x", "causal-lm", present, {"text": "contents"})
    assert "content" in caught.value.hint


def test_an_unknown_option_is_told(package):
    with pytest.raises(GradscopeError, match="no such option") as caught:
        build(CAUSAL, splits="train")
    assert caught.value.hint == "did you mean split?"


def test_what_the_package_raises_is_one_message(package):
    package.table = ValueError("Unknown split\n 'trian'")
    with pytest.raises(GradscopeError, match="hf:some/thing cannot be loaded: ValueError: Unknown split 'trian'"):
        build(CAUSAL)


def test_without_the_package_the_remedy_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(GradscopeError, match="needs the package datasets") as caught:
        build(CAUSAL)
    assert caught.value.exit_code == ExitCode.ENVIRONMENT
    assert caught.value.hint == "pip install 'gradscope-tui[datasets]'"


def test_an_unreachable_hub_is_told_without_retries(package, monkeypatch):
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(constants, "ENDPOINT", "http://127.0.0.1:9")
    with pytest.raises(GradscopeError, match=r"127.0.0.1:9 cannot be reached") as caught:
        build(CAUSAL)
    assert caught.value.exit_code == ExitCode.ENVIRONMENT
    assert package.calls == []


def test_a_folder_that_is_not_there_is_told(package):
    with pytest.raises(GradscopeError, match=r"there is no folder ./nothing"):
        build(CAUSAL, "hf:./nothing")
