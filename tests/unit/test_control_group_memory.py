"""What control groups leave of the host's memory, versions 1 and 2, from folders made up here."""

from gradscope.sampling.cgroup import MemoryAllowance, memory_allowance, memory_groups

GIB = 2**30


def group(folder, limit, usage, inactive, names=("memory.max", "memory.current", "inactive_file")):
    folder.mkdir(parents=True, exist_ok=True)
    (folder / names[0]).write_text(f"{limit}\n")
    (folder / names[1]).write_text(f"{usage}\n")
    (folder / "memory.stat").write_text(f"anon 5\n{names[2]} {inactive}\nfile 9\n")


def own(tmp_path, text):
    path = tmp_path / "own"
    path.write_text(text)
    return path


def test_the_tightest_of_nested_groups_counts(tmp_path):
    root = tmp_path / "cgroup"
    group(root / "user", 8 * GIB, 6 * GIB, 1 * GIB)
    group(root / "user" / "job", 4 * GIB, 2 * GIB, 1 * GIB)
    groups = memory_groups(root, own(tmp_path, "0::/user/job\n"))
    assert len(groups) == 2
    # the inner group has the smaller limit and the same 3 GiB left
    assert memory_allowance(groups) == MemoryAllowance(limit_bytes=4 * GIB, available_bytes=3 * GIB)


def test_no_limit_is_none(tmp_path):
    root = tmp_path / "cgroup"
    group(root / "job", "max", 2 * GIB, 0)
    assert memory_allowance(memory_groups(root, own(tmp_path, "0::/job\n"))) is None


def test_version_1_and_its_huge_number_for_no_limit(tmp_path):
    names = ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")
    root = tmp_path / "cgroup"
    group(root / "memory", 9223372036854771712, 2 * GIB, 0, names)
    group(root / "memory" / "job", 3 * GIB, 4 * GIB, 0, names)
    groups = memory_groups(root, own(tmp_path, "5:cpu:/\n4:memory:/job\n"))
    assert memory_allowance(groups) == MemoryAllowance(limit_bytes=3 * GIB, available_bytes=0)


def test_a_group_that_vanished_or_reads_oddly_has_no_limit(tmp_path):
    root = tmp_path / "cgroup"
    group(root / "job", 3 * GIB, "odd", 0)
    groups = memory_groups(root, own(tmp_path, "0::/job\n"))
    assert memory_allowance(groups) is None
    (root / "job" / "memory.max").unlink()
    assert memory_allowance(groups) is None


def test_a_system_without_control_groups_has_none(tmp_path):
    assert memory_groups(tmp_path, tmp_path / "missing") == []
    assert memory_groups(tmp_path, own(tmp_path, "0::/../outside\n")) == []
