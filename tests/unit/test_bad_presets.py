import pytest

from gradscope.config.load import load_preset
from gradscope.errors import ExitCode, GradscopeError

CLAIM = '[[claim]]\nname = "a"\ntext = "b"\nmetric = "loss_last"\n'

BAD = [
    # text of mine.toml, message after "gradscope: ", hint
    ('[optimizer]\nlr = "abc"', 'optimizer.lr in mine.toml: found "abc", allowed a number > 0', ""),
    ("[optimizer]\nlr = 0", "optimizer.lr in mine.toml: found 0, allowed a number > 0", ""),
    ("[optimizer]\nlr = nan", "optimizer.lr in mine.toml: found nan, allowed a finite number", ""),
    ("[optimizer]\nlr = true", "optimizer.lr in mine.toml: found true, allowed a number > 0", ""),
    (
        "[optimizer]\nlrr = 1",
        "optimizer.lrr in mine.toml: found an unknown key, allowed lr, name, options",
        "did you mean optimizer.lr?",
    ),
    ("lr = 1", "lr in mine.toml: found an unknown key, allowed audit, budget,", "did you mean optimizer.lr?"),
    ("[modle]", "modle in mine.toml: found an unknown key", "did you mean model?"),
    ('model = "vit"', 'model in mine.toml: found "vit", allowed a table', ""),
    ('[model]\nname = "vti"', 'model.name in mine.toml: found "vti", allowed vit, modernbert', "did you mean vit?"),
    ('[model]\nname = "hf:"', 'model.name in mine.toml: found "hf:", allowed', "hf:"),
    ('[model]\nname = "py:mine"', 'found "py:mine", allowed py:MODULE:FACTORY', "py:mypackage.models:build"),
    ('[model]\nname = "py:mine:"', 'found "py:mine:", allowed py:MODULE:FACTORY', ""),
    ('[model]\nscale = "tny"', 'model.scale in mine.toml: found "tny", allowed full or tiny', "did you mean tiny?"),
    ("[model]\ndropout = 1.0", "model.dropout in mine.toml: found 1.0, allowed a number >= 0 and < 1", ""),
    ("[model]\npretrained = true", "model.pretrained and model.name in mine.toml", "hf:ID_OR_FOLDER"),
    ("[model.options]\nborn = 2024-01-01", "model.options.born in mine.toml: found a date, allowed text, a num", ""),
    (
        f"[model.options]\na = [{2**64}]",
        "model.options.a[0] in mine.toml: found 18446744073709551616, allowed a whole number of 64 bits",
        "",
    ),
    ("[data]\nbatch_size = 2.0", "data.batch_size in mine.toml: found 2.0, allowed a whole number >= 1", ""),
    ('[data]\nname = "shape"', 'data.name in mine.toml: found "shape", allowed shapes, text', "did you mean shapes?"),
    ('[data]\nname = "file"\npath = "x.txt"', "data.name and model.name in mine.toml: found", 'data.name = "shapes"'),
    ('[data]\nname = "file"', "data.path and data.name in mine.toml: found no path with", ""),
    ('[data]\npath = "x.txt"', 'data.path and data.name in mine.toml: found path = "x.txt"', "leave data.path out"),
    ('[data]\nname = "text"', "data.name and model.name in mine.toml: found", 'set data.name = "shapes"'),
    ('[optimizer]\nname = "adma"', 'optimizer.name in mine.toml: found "adma"', "did you mean adam?"),
    ('[optimizer]\nname = "lbgfs"', 'optimizer.name in mine.toml: found "lbgfs"', "did you mean LBFGS?"),
    (
        '[optimizer]\nname = "Optimizer"',
        'found "Optimizer", allowed sgd,',
        "`gradscope presets --list optimizers` lists",
    ),
    ("[run]\nthreads = 5000", "run.threads in mine.toml: found 5000, allowed a whole number >= 1 and <= 1024", ""),
    ('[optimizer]\nname = "pytorch_optimizer:"', 'found "pytorch_optimizer:", allowed sgd,', ""),
    ('[memory]\nstrategy = "checkpointing"', 'found "checkpointing", allowed standard,', "did you mean checkpoint?"),
    (
        "[memory]\naccumulate = 4",
        'memory.accumulate and memory.strategy in mine.toml: found accumulate = 4 with strategy = "standard"',
        "set memory.strategy to accumulate or checkpoint-accumulate",
    ),
    (
        '[memory]\nstrategy = "accumulate"\naccumulate = 9\nmode = "split"',
        "data.batch_size and memory.accumulate in mine.toml: found batch_size = 8 with 9 micro-batches",
        "raise data.batch_size to 9",
    ),
    (
        "[budget]\nupdates = 1\nseconds = 2",
        "budget.updates and budget.seconds in mine.toml: found updates = 1 and seconds = 2.0, allowed exactly one",
        "",
    ),
    ('[budget]\nupdates = "none"', "budget.updates and budget.samples and budget.seconds", ""),
    ("[budget]\nupdates = -1", "budget.updates in mine.toml: found -1, allowed a whole number >= 0", ""),
    ('[run]\ndevice = "gpu"', 'run.device in mine.toml: found "gpu", allowed auto, cpu, cuda or cuda:N', ""),
    ('[run]\ndevice = "cuda:x"', 'run.device in mine.toml: found "cuda:x", allowed auto', "did you mean cuda?"),
    ('[run]\ndevice = "cuda:256"', 'run.device in mine.toml: found "cuda:256", allowed auto', "did you mean cuda?"),
    ('[run]\ndevice = "cuda:07"', 'run.device in mine.toml: found "cuda:07", allowed auto', "did you mean cuda?"),
    ('[run]\nprecision = "fp16"\ndevice = "cpu"', "run.precision and run.device in mine.toml", "bf16"),
    ('[run]\nprecision = "fp16"\n[optimizer]\nname = "LBFGS"', "run.precision and optimizer.name in mine.toml", "bf16"),
    ("[run]\ntime_limit_seconds = 5\n[budget]\nseconds = 9", "run.time_limit_seconds and budget.seconds", "raise"),
    ("[sampling]\ninterval_ms = 1", "sampling.interval_ms in mine.toml: found 1, allowed a number >= 20", ""),
    ('name = ""', 'name in mine.toml: found "", allowed a name', ""),
    ("[sweep]", "sweep.axes in mine.toml: found nothing, allowed a table", ""),
    ("[sweep.axes]", "sweep.axes in mine.toml: found no axis", ""),
    (
        "[sweep.axes]\noptimiser = [1]",
        'found the key "optimiser", allowed a key of a preset',
        "did you mean optimizer?",
    ),
    ('[sweep.axes]\n"data.batch_size" = []', "sweep.axes.data.batch_size in mine.toml: found an empty list", ""),
    (
        '[sweep.axes]\n"data.batch_size" = [8, "x"]',
        'sweep.axes.data.batch_size[1] in mine.toml: found "x", allowed a whole number >= 1',
        "",
    ),
    (
        '[sweep.axes]\noptimizer = [{ name = "sgd" }, { name = "adma" }]',
        'sweep.axes.optimizer[1] and optimizer.name in mine.toml: found "adma"',
        "did you mean adam?",
    ),
    ('[sweep.axes]\n"model+dta" = [{}]', 'found "dta" in "model+dta", allowed tables: model, data', ""),
    ('[sweep.axes]\n"model+data" = [3]', "sweep.axes.model+data[0] in mine.toml: found 3, allowed a table with", ""),
    (
        '[sweep]\ncombine = "zip"\n[sweep.axes]\n"run.seed" = [1, 2]\n"data.batch_size" = [1]',
        'found 2 and 1 values with combine = "zip"',
        "",
    ),
    (
        '[sweep.axes]\noptimizer = [{ lr = 1.0 }]\n"optimizer.lr" = [0.1]',
        "sweep.axes.optimizer.lr and sweep.axes.optimizer in mine.toml: found optimizer.lr in both",
        "",
    ),
    ('[sweep]\nrepeats = 2\n[sweep.axes]\n"run.seed" = [1, 2]', "sweep.repeats and sweep.axes in mine.toml", ""),
    (
        '[sweep]\nrepeats = 10001\n[sweep.axes]\n"run.seed" = [1]',
        "sweep.axes in mine.toml: found 10001 cells, allowed at most 10000",
        "",
    ),
    (
        '[sweep]\nexclude = [{ "memory.strategi" = "standard" }]\n[sweep.axes]\n"run.seed" = [1]',
        'sweep.exclude[0].memory.strategi in mine.toml: found the key "memory.strategi"',
        "did you mean memory.strategy?",
    ),
    (CLAIM, "claim[0].at_least and claim[0].at_most in mine.toml: found neither, allowed at least one bound", ""),
    (f"{CLAIM}at_least = 2\nat_most = 1", "found 2 and 1, allowed a lower bound below the upper one", ""),
    (f"{CLAIM}at_most = 1\n{CLAIM}at_most = 2", 'claim[1].name and claim[0].name in mine.toml: found "a" twice', ""),
    ('[[claim]]\nname = "a"\ntext = "b"', "claim[0].metric in mine.toml: found nothing, allowed text", ""),
    (
        f'{CLAIM}at_most = 1\nsubset = {{ "model.nam" = "vit" }}',
        'claim[0].subset.model.nam in mine.toml: found the key "model.nam"',
        "did you mean model.name?",
    ),
    (
        f'{CLAIM}at_most = 1\nnumerator = {{ "memory.strategy" = ["standard", "chekpoint"] }}',
        'found "chekpoint", allowed standard',
        "did you mean checkpoint?",
    ),
    (f"{CLAIM}at_most = 1\ndenominator = {{}}", "claim[0].denominator in mine.toml: found an empty table", ""),
]


@pytest.mark.parametrize(("text", "message", "hint"), BAD)
def test_a_bad_preset_is_one_message_with_file_key_found_and_allowed(tmp_path, monkeypatch, text, message, hint):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.toml").write_text(text)
    with pytest.raises(GradscopeError) as caught:
        load_preset("./mine.toml")
    assert message in caught.value.message
    assert hint in caught.value.hint
    assert caught.value.exit_code == ExitCode.USAGE
    assert "\n" not in caught.value.message


def test_the_message_names_the_file_that_set_the_key(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "base.toml").write_text('[optimizer]\nlr = "abc"')
    (tmp_path / "mine.toml").write_text('extends = "base.toml"\n[optimizer]\nname = "sgd"')
    with pytest.raises(GradscopeError, match=r"optimizer\.lr in base\.toml: found"):
        load_preset("./mine.toml")


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("optimizer.lr=abc", 'optimizer.lr in -s optimizer.lr=abc: found "abc", allowed a number > 0'),
        ("optimizer={lr=-1}", "optimizer.lr in -s optimizer={lr=-1}: found -1, allowed a number > 0"),
        ("optimizer.lrr=1", "optimizer.lrr in -s optimizer.lrr=1: found an unknown key"),
        ("optimizer.lr.x=1", "optimizer.lr in -s optimizer.lr.x=1: found a table, allowed a number > 0"),
        ("memory.accumulate=4", "memory.accumulate and memory.strategy in -s memory.accumulate=4: found"),
        ("data.name=text", "data.name and model.name in -s data.name=text: found"),
        ("run.device=\x1b[2J", 'run.device in -s run.device=\\e[2J: found "\\e[2J"'),
        ("run.device=\udcff", 'run.device in -s run.device=\\udcff: found "\\udcff", allowed text that is valid UTF-8'),
        ("optimizer.lr", '-s optimizer.lr: found no "=", allowed KEY=VALUE'),
        ("=1", "-s =1: found the key empty, allowed a dotted key"),
        ("a..b=1", "-s a..b=1: found the key a..b, allowed a dotted key"),
        pytest.param(".".join("a" * 5000) + "=1", "-s: found tables nested more than 24 deep", id="dots"),
    ],
)
def test_a_bad_override_is_named_as_it_was_written(tmp_path, override, message):
    (tmp_path / "mine.toml").write_text("")
    with pytest.raises(GradscopeError) as caught:
        load_preset(str(tmp_path / "mine.toml"), [override])
    assert message in caught.value.message


def test_two_budgets_on_the_command_line_are_refused(tmp_path):
    (tmp_path / "mine.toml").write_text("")
    with pytest.raises(GradscopeError, match=r"budget\.updates and budget\.seconds in -s budget"):
        load_preset(str(tmp_path / "mine.toml"), ["budget.updates=2", "budget.seconds=2"])


@pytest.mark.parametrize(
    "text",
    [
        "[budget]\nupdates = 0",
        '[optimizer]\nname = "RMSprop"',
        '[optimizer]\nname = "rmsPROP"',
        '[optimizer]\nname = "pytorch_optimizer:Lion"',
        '[model]\nname = "py:my.package:factory.build"\n[data]\nname = "random"',
        '[model]\nname = "hf:org/model"\npretrained = true\n[data]\nname = "hf:org/data"',
        '[memory]\nstrategy = "accumulate"\naccumulate = 8\nmode = "split"',
        "[memory]\naccumulate = 1",
        '[run]\nprecision = "fp16"',
        "[profile]\nsteps = 0\nstacks = true",
        '[data]\nname = "folder"\npath = "images"',
    ],
)
def test_what_is_allowed(tmp_path, text):
    (tmp_path / "mine.toml").write_text(text)
    assert load_preset(str(tmp_path / "mine.toml")).name == "mine"
