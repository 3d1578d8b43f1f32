"""The scenarios that ship: each is whole, and every kernel renders it."""

import json
import re
from pathlib import Path

import pytest

from kprobe_sim.builds import profile
from kprobe_sim.cli import main
from kprobe_sim.scenarios.choices import chosen_kernels, chosen_options, lacks
from kprobe_sim.scenarios.rendering import render
from kprobe_sim.scenarios.scenario import scenario_of
from kprobe_sim.scenarios.shipped import load, names

KERNELS = chosen_kernels("all")
COUNTED = re.compile(rb"# entries-in-buffer/entries-written: (\d+)/")


def test_there_are_five_dozen_and_three_dozen_have_links() -> None:
    scenarios = {name: scenario_of(load(name)) for name in names()}
    assert len(scenarios) >= 60
    assert [name for name, one in scenarios.items() if not one.title or len(one.title) > 80 or not one.breaks] == []
    links = [one.link for one in scenarios.values() if one.link]
    assert len(links) >= 36
    assert len(set(links)) >= 36
    assert [
        link for link in links if not re.fullmatch(r"https://github\.com/[\w.-]+/[\w.-]+/(issues|pull)/\d+", link)
    ] == []


def test_all_builds_are_there() -> None:
    assert {"5.10", "6.1", "6.12", "6.12-rt-amd64", "6.16", "7.0", "7.3"} <= set(KERNELS)


@pytest.mark.slow
@pytest.mark.parametrize(("number", "kernel"), list(enumerate(KERNELS)), ids=KERNELS)
def test_every_scenario_renders(number: int, kernel: str) -> None:
    """Each with one of the sets of options, and each kernel has them in another order."""
    build = profile.load(kernel)
    sets = [options for options in chosen_options("all") if not lacks(build, options, "local")]
    for place, name in enumerate(names()):
        options = sets[(place + 5 * number) % len(sets)]
        rendering = render(load(name), kernel, options)
        shown = [record for record in rendering.truth if record["type"] not in ("lost", "started")]
        assert shown, name
        assert json.dumps(rendering.truth)
        counted = COUNTED.search(rendering.text)
        if counted is not None:
            assert len(shown) == int(counted[1]), (name, options)


@pytest.mark.parametrize("kernel", ["4.9", "4.14", "4.19", "5.4"])
def test_every_scenario_is_there_on_kernels_before_5_10(kernel: str) -> None:
    """It says what happens, and the kernel names its functions: not do_sys_openat2, which came with 5.6."""
    opened = 0
    for name in names():
        rendering = render(load(name), kernel)
        assert rendering.truth, name
        opened += any(" do_sys_open " in f"{line} " for line in rendering.definitions)
        assert "do_sys_openat2" not in "".join(rendering.definitions), name
    assert opened > 40


def test_of_what_a_list_has_the_first_that_the_kernel_takes_is_meant() -> None:
    arrays = {kernel: render(load("arrays"), kernel).definitions for kernel in ("4.19", "5.4")}
    assert arrays["5.4"][0].startswith("p:kprobes/arr ksys_fadvise64_64 a=+0(%si):u8[4] ")
    assert arrays["4.19"][0].startswith("p:kprobes/arr ksys_fadvise64_64 a=+0(%si):u8 a1=+1(%si):u8 ")
    tgid = {kernel: render(load("tgid"), kernel).text for kernel in ("4.9", "4.14")}
    assert b"( 4748) " in tgid["4.14"]
    assert b"4748) " not in tgid["4.9"]


def test_the_command_writes_entries(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert (
        main(["text", "comm_spaces", "--kernels", "5.10,7.3", "--options", "default,fields", "-o", str(tmp_path)]) == 0
    )
    assert capfd.readouterr().err == "kprobe-sim: 5.10 has no option 'fields': no text of it\n"
    assert sorted(str(path.relative_to(tmp_path)) for path in tmp_path.glob("*/*")) == [
        "5.10/comm_spaces",
        "7.3/comm_spaces",
        "7.3/comm_spaces.fields",
    ]
    entry = tmp_path / "7.3" / "comm_spaces"
    facts = json.loads((entry / "about.json").read_text())
    text = (entry / "trace.txt").read_bytes()
    assert facts["link"] == "https://github.com/ARM-software/lisa/pull/1608"
    assert (facts["kernel"], facts["release"], facts["options"]) == ("7.3", "7.3-cloud-amd64", [])
    assert facts["lines"] == text.count(b"\n")
    truth = [json.loads(line) for line in (entry / "truth.jsonl").read_text().splitlines()]
    assert [record["task"] for record in truth[::2]] == ["Web Content", "a b  c", "plain"]
    assert (entry / "formats").read_text().startswith("== events/kprobes/ent/format\nname: ent\n")
    assert (entry / "kprobe_events").read_text().startswith("p:kprobes/ent do_sys_openat2 dfd=%di:s32")


@pytest.mark.parametrize(
    ("arguments", "status", "said"),
    [
        (["no_such"], 2, "no scenario 'no_such'"),
        (["./no_such.toml"], 2, "scenario ./no_such.toml: No such file or directory"),
        (["comm_spaces", "--kernels", "2.4"], 2, "2.4"),
        (["comm_spaces", "--kernels", "6.1", "--options", "fields"], 1, "has no option 'fields'"),
        (["comm_spaces", "--kernels", "6.1", "--tracefs", "sim:6.1"], 2, "either --kernels or --tracefs"),
        (["comm_spaces", "--tracefs", "moon:6.1"], 2, "no 'moon-stage' in the entry points kprobe.scenarios"),
    ],
)
def test_what_cannot_be_given_is_said(
    arguments: list[str], status: int, said: str, capfd: pytest.CaptureFixture[str]
) -> None:
    assert main(["text", *arguments]) == status
    assert said in capfd.readouterr().err
