"""Rows: what each data set gives for each task, from the seed and the index alone; bad input told with a remedy."""

import numpy as np
import pytest
import torch
from PIL import Image

from gradscope.config.schema import DataSettings
from gradscope.errors import GradscopeError
from gradscope.worker.contract import IGNORED_LABEL, DataSpec
from gradscope.worker.data import build_dataset
from gradscope.worker.data.scenes import CLASSES, COLOURS, RELATIONS, SHAPES, Scene, Thing, draw, sample_scene
from gradscope.worker.data.text import docstrings, english
from gradscope.worker.data.tokens import END, MASK, PAD, causal_row, encode, masked_row

SPECS = {
    "image-class": DataSpec(task="image-class", image_size=32, classes=9),
    "image-caption": DataSpec(task="image-caption", image_size=32, sequence_length=40, vocabulary=320, mask_token=MASK),
    "masked-lm": DataSpec(task="masked-lm", sequence_length=40, vocabulary=320, mask_token=MASK),
    "causal-lm": DataSpec(task="causal-lm", sequence_length=40, vocabulary=320, mask_token=MASK),
}
SERVED = [
    *(("shapes", task) for task in SPECS),
    *(("random", task) for task in SPECS),
    ("text", "masked-lm"),
    ("text", "causal-lm"),
]


def build(name, task, seed=3, **settings):
    return build_dataset(DataSettings(name=name, **settings), SPECS[task], seed)


def same(first, second):
    return first.keys() == second.keys() and all(torch.equal(first[key], second[key]) for key in first)


def generator(seed=0):
    return np.random.default_rng(seed)


def words(ids):
    return bytes(int(i) for i in ids if i < 256).decode()


@pytest.mark.parametrize(("name", "task"), SERVED)
def test_a_row_depends_on_seed_and_index_alone(name, task):
    rows = build(name, task)
    late = rows[1_000_000_007]
    assert same(rows[5], build(name, task)[5])
    assert same(late, rows[1_000_000_007])
    assert not same(rows[5], rows[6])
    assert not same(rows[5], build(name, task, seed=4)[5])


@pytest.mark.parametrize(("name", "task"), SERVED)
def test_a_row_has_the_shapes_and_ranges_that_the_model_asked_for(name, task):
    spec = SPECS[task]
    rows = build(name, task)
    for row in (rows[index] for index in range(50)):
        if spec.image_size:
            assert row["pixel_values"].shape == (3, 32, 32)
            assert row["pixel_values"].dtype == torch.float32
            assert -1 <= row["pixel_values"].min() < row["pixel_values"].max() <= 1
        if spec.classes:
            assert row["labels"].dtype == torch.int64
            assert 0 <= row["labels"] < spec.classes
        else:
            assert row["input_ids"].shape == row["labels"].shape == (40,)
            assert 0 <= row["input_ids"].min() <= row["input_ids"].max() < spec.vocabulary
            scored = row["labels"][row["labels"] != IGNORED_LABEL]
            assert len(scored) > 0
            assert 0 <= scored.min() <= scored.max() < spec.vocabulary


def test_all_classes_occur_and_no_others():
    rows = build("shapes", "image-class")
    assert {int(rows[index]["labels"]) for index in range(300)} == set(range(9))
    wide = build_dataset(DataSettings(), DataSpec(task="image-class", image_size=8, classes=1000), 0)
    assert {int(wide[index]["labels"]) for index in range(1000)} == set(range(48))


def test_the_first_square_number_of_classes_are_all_pairs_of_the_first_colours_and_shapes():
    assert len(set(CLASSES)) == 48
    for n in range(1, 7):
        assert set(CLASSES[: n * n]) == {(colour, shape) for colour in list(COLOURS)[:n] for shape in SHAPES[:n]}


def test_a_caption_says_what_the_picture_shows():
    scene = Scene(
        Thing("red", "square", "large", 0.3, 0.5, 0.2), 1, "left of", Thing("blue", "circle", "tiny", 0.8, 0.5, 0.1)
    )
    assert scene.caption() == "a large red square left of a tiny blue circle"
    image = draw(scene, 50, generator())
    assert np.allclose(image[:, 25, 15], [0.8, -0.8, -0.8])
    assert np.allclose(image[:, 25, 40], [-0.8, -0.6, 0.8])
    assert abs(float(image[0, 2, 2] - image[2, 2, 2])) < 0.25


@pytest.mark.parametrize("size", [1, 7, 64, 224])
def test_scenes_are_drawn_at_any_resolution_and_stay_inside(size):
    for seed in range(20):
        rng = generator(seed)
        image = draw(sample_scene(rng), size, rng)
        assert image.shape == (3, size, size)
        assert image.flags.c_contiguous


def test_relations_hold_in_the_picture():
    for seed in range(200):
        scene = sample_scene(generator(seed))
        if scene.other is None:
            continue
        dx, dy = RELATIONS[scene.relation]
        offset = (scene.subject.x - scene.other.x) * dx + (scene.subject.y - scene.other.y) * dy
        assert offset > 0.25
        assert scene.subject.radius > scene.other.radius


def test_every_shape_covers_its_own_part_of_the_picture():
    pictures = []
    for shape in SHAPES:
        scene = Scene(Thing("white", shape, "large", 0.5, 0.5, 0.4), 0, None, None)
        pictures.append(draw(scene, 64, generator())[0] > 0.99)
    shares = [float(picture.mean()) for picture in pictures]
    assert all(0.1 < share < 0.6 for share in shares)
    assert len({picture.tobytes() for picture in pictures}) == len(SHAPES)


def test_captions_differ_in_length_and_end():
    rows = build("shapes", "image-caption")
    lengths = set()
    for index in range(20):
        row = rows[index]
        real = row["labels"] != IGNORED_LABEL
        lengths.add(int(real.sum()))
        assert torch.equal(row["input_ids"][real], row["labels"][real])
        assert (row["input_ids"][~real] == PAD).all()
        assert words(row["input_ids"]).startswith("a ")
    assert len(lengths) > 3


def test_masking_hides_three_tenths_and_labels_only_those():
    ids = np.arange(100, 200)
    row = masked_row(ids, 120, MASK, generator())
    hidden = row["labels"] != IGNORED_LABEL
    assert int(hidden.sum()) == 30
    assert (row["input_ids"][hidden] == MASK).all()
    assert torch.equal(row["labels"][hidden], torch.arange(100, 220)[:120][hidden])
    assert torch.equal(row["input_ids"][:100][~hidden[:100]], torch.arange(100, 200)[~hidden[:100]])
    assert (row["input_ids"][100:] == PAD).all()


@pytest.mark.parametrize("length", [1, 2, 3])
def test_masking_always_hides_at_least_one_token(length):
    row = masked_row(encode("abc"), length, MASK, generator())
    assert int((row["labels"] != IGNORED_LABEL).sum()) == 1


def test_a_causal_row_is_cut_or_filled_up():
    assert causal_row(encode("ab"), 5)["input_ids"].tolist() == [97, 98, END, PAD, PAD]
    assert causal_row(encode("ab"), 5)["labels"].tolist() == [97, 98, END, -100, -100]
    assert causal_row(encode("abcd"), 2)["labels"].tolist() == [97, 98]


def test_the_text_is_english_and_long():
    text = english()
    assert len(text) > 100_000
    assert sum(text.count(f" {word} ") for word in ("the", "of", "is", "a")) > 1000
    assert words(build("text", "causal-lm")[0]["input_ids"]) in text


def test_the_text_without_its_usual_source_is_still_long():
    assert len(docstrings()) > 20_000


def test_random_tokens_need_no_room_for_bytes():
    small = DataSpec(task="masked-lm", sequence_length=8, vocabulary=11, mask_token=MASK)
    row = build_dataset(DataSettings(name="random"), small, 0)[0]
    assert row["input_ids"].max() < 11
    with pytest.raises(GradscopeError, match="vocabulary has 11 tokens, and byte-level text needs 259"):
        build_dataset(DataSettings(name="text"), small, 0)


@pytest.mark.parametrize(
    ("name", "task", "message"),
    [
        ("text", "image-class", "'text' has no rows for the task image-class"),
        ("file", "image-caption", "'file' has no rows for the task image-caption"),
        ("folder", "causal-lm", "'folder' has no rows for the task causal-lm"),
        ("shape", "causal-lm", "there is no data set 'shape'"),
        ("file", "causal-lm", "'file' needs data.path"),
        ("folder", "image-class", "'folder' needs data.path"),
    ],
)
def test_a_data_set_that_does_not_fit_is_told(name, task, message):
    with pytest.raises(GradscopeError, match=message) as caught:
        build(name, task)
    assert caught.value.hint


def test_an_unknown_option_is_told():
    with pytest.raises(GradscopeError, match=r"data.options.colours: no such option"):
        build("shapes", "image-class", options={"colours": 3})


def test_windows_of_a_file_are_its_bytes(tmp_path):
    (tmp_path / "a.txt").write_bytes(bytes(range(97, 123)) * 20)
    rows = build("file", "causal-lm", path=str(tmp_path / "a.txt"))
    texts = {words(rows[index]["input_ids"]) for index in range(30)}
    assert all(text in "abcdefghijklmnopqrstuvwxyz" * 20 and len(text) == 40 for text in texts)
    assert len(texts) > 10


def test_a_file_shorter_than_a_row_is_filled_up(tmp_path):
    (tmp_path / "a.txt").write_text("ab")
    row = build("file", "causal-lm", path=str(tmp_path / "a.txt"))[9]
    assert row["input_ids"].tolist() == [97, 98] + [PAD] * 38


@pytest.mark.parametrize(
    ("path", "message"), [("no.txt", "there is no file"), ("empty.txt", "is empty"), (".", "there is no file")]
)
def test_a_bad_file_is_told(tmp_path, path, message):
    (tmp_path / "empty.txt").touch()
    with pytest.raises(GradscopeError, match=message):
        build("file", "causal-lm", path=str(tmp_path / path))


@pytest.fixture
def pictures(tmp_path):
    for name, colour in (("b_two", (255, 0, 0)), ("a-one", (0, 0, 255))):
        (tmp_path / name).mkdir()
        for number in range(3):
            Image.new("RGB", (20, 10), colour).save(tmp_path / name / f"{number}.png")
    (tmp_path / "b_two" / "notes.txt").write_text("not a picture")
    (tmp_path / "empty").mkdir()
    return tmp_path


def test_the_folders_of_images_are_classes_in_order_of_name(pictures):
    rows = build("folder", "image-class", path=str(pictures))
    assert len(rows) == 6
    assert [int(rows[index]["labels"]) for index in range(6)] == [0, 0, 0, 1, 1, 1]
    assert rows[0]["pixel_values"][:, 0, 0].tolist() == [-1.0, -1.0, 1.0]
    assert rows[5]["pixel_values"].shape == (3, 32, 32)


def test_the_folders_of_images_are_captions(pictures):
    rows = build("folder", "image-caption", path=str(pictures))
    assert [words(rows[index]["input_ids"]) for index in (0, 5)] == ["a one", "b two"]


def test_grey_and_transparent_images_are_read(pictures):
    Image.new("LA", (5, 5)).save(pictures / "a-one" / "0.png")
    Image.new("I;16", (5, 5)).save(pictures / "a-one" / "1.png")
    rows = build("folder", "image-class", path=str(pictures))
    assert rows[0]["pixel_values"].shape == rows[1]["pixel_values"].shape == (3, 32, 32)


def test_an_unreadable_image_is_named(pictures):
    (pictures / "a-one" / "1.png").write_bytes(b"\x89PNG\r\n\x1a\n and then rubbish")
    with pytest.raises(GradscopeError, match=r"1.png cannot be read as an image") as caught:
        build("folder", "image-class", path=str(pictures))[1]
    assert caught.value.hint


def test_a_bad_folder_is_told(pictures):
    with pytest.raises(GradscopeError, match="there is no folder"):
        build("folder", "image-class", path=str(pictures / "missing"))
    with pytest.raises(GradscopeError, match="holds no images in sub-folders"):
        build("folder", "image-class", path=str(pictures / "a-one"))
    few = DataSpec(task="image-class", image_size=8, classes=1)
    with pytest.raises(GradscopeError, match="has 2 classes, and the model has 1") as caught:
        build_dataset(DataSettings(name="folder", path=str(pictures)), few, 0)
    assert caught.value.hint == "set model.options.num_labels = 2"
