"""The cache folder is used only if no other user can write or replace it."""

import os
import time
from pathlib import Path

import pytest

from pliant.kernels import cache_folder
from pliant.kernels.cache_folder import UnusableFolder, usable_folder

NAME = "kernels-0123456789ab"
OTHER_USER = os.geteuid() + 1


@pytest.fixture
def set_owner(monkeypatch):
    """Return set_owner(folder, uid), which makes a folder appear to belong to another user."""
    owners, stat = {}, Path.stat

    def stat_with_owner(path, **options):
        status = list(stat(path, **options))
        status[4] = owners.get(path, status[4])
        return os.stat_result(status)

    monkeypatch.setattr(Path, "stat", stat_with_owner)
    return lambda folder, uid=OTHER_USER: owners.update({folder: uid})


@pytest.mark.parametrize(
    ("mode", "safe"), [(0o755, True), (0o775, False), (0o777, False), (0o1777, True)]
)
def test_parent_writable_by_others_must_be_sticky(tmp_path, mode, safe):
    base = tmp_path / "base"
    usable_folder(base, NAME)
    base.chmod(mode)
    if safe:
        assert usable_folder(base, NAME) == base / NAME
    else:
        with pytest.raises(UnusableFolder, match=f"can replace the folders in {base}"):
            usable_folder(base, NAME)


@pytest.mark.parametrize("mode", [0o700, 0o755, 0o1777])
@pytest.mark.parametrize("distance", [0, 1, 2])
def test_parent_of_another_user_is_rejected_even_if_it_is_sticky(
    tmp_path, set_owner, mode, distance
):
    base = tmp_path / "a" / "b" / "base"
    folder = usable_folder(base, NAME)
    parent = folder.parents[distance]
    parent.chmod(mode)
    set_owner(parent)
    with pytest.raises(UnusableFolder, match=f"{parent} belongs to another user"):
        usable_folder(base, NAME)
    set_owner(parent, uid=0)
    assert usable_folder(base, NAME) == folder


def test_folder_of_another_user_is_rejected(tmp_path, set_owner):
    set_owner(usable_folder(tmp_path, NAME))
    with pytest.raises(UnusableFolder, match=f"{NAME} belongs to another user"):
        usable_folder(tmp_path, NAME)


@pytest.mark.parametrize("mode", [0o1777, 0o750, 0o701])
def test_temporary_folder_must_have_mode_0700(tmp_path, mode):
    base = tmp_path / "base"
    usable_folder(base, NAME, private=True)
    base.chmod(mode)
    with pytest.raises(UnusableFolder, match="its mode must be 0700"):
        usable_folder(base, NAME, private=True)


def test_temporary_folder_must_belong_to_the_user_and_be_no_link(tmp_path, set_owner):
    (tmp_path / "target").mkdir(mode=0o700)
    (tmp_path / "link").symlink_to("target")
    set_owner(tmp_path / "target")
    for base in (tmp_path / "target", tmp_path / "link"):
        with pytest.raises(UnusableFolder, match=f"{base} belongs to another user or is a symb"):
            usable_folder(base, NAME, private=True)
        assert not list(base.iterdir())


def test_link_in_the_path_cannot_be_redirected_after_the_check(tmp_path):
    (tmp_path / "target").mkdir()
    (tmp_path / "link").symlink_to("target")
    assert usable_folder(tmp_path / "link", NAME) == tmp_path / "target" / NAME


def aged_folder(base, name, days):
    (base / name / "files").mkdir(parents=True)
    (base / name / "files" / "f.nbc").write_text("code")
    then = time.time() - days * 24 * 3600
    os.utime(base / name, (then, then))


def test_only_cache_folders_unused_for_60_days_are_deleted(tmp_path):
    unused = ["kernels-aaaaaaaaaaaa", "kernels-bbbbbbbbbbbb.17"]  # the second: half deleted
    other = ["kernels-of-mine", "results"]
    for name in [*unused, *other, NAME]:
        aged_folder(tmp_path, name, days=61)
    aged_folder(tmp_path, "kernels-cccccccccccc", days=59)
    (tmp_path / "kernels-dddddddddddd").symlink_to("results")
    usable_folder(tmp_path, NAME)
    kept = [*other, NAME, "kernels-cccccccccccc", "kernels-dddddddddddd"]
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(kept)
    assert (tmp_path / NAME / "files" / "f.nbc").exists()
    assert time.time() - (tmp_path / NAME).stat().st_mtime < 24 * 3600  # used now


def test_folder_that_cannot_be_deleted_is_left(tmp_path, monkeypatch):
    aged_folder(tmp_path, "kernels-aaaaaaaaaaaa", days=61)

    def refuse(*_):
        raise PermissionError

    monkeypatch.setattr(cache_folder.Path, "rename", refuse)
    assert usable_folder(tmp_path, NAME) == tmp_path / NAME
    assert (tmp_path / "kernels-aaaaaaaaaaaa" / "files").exists()
