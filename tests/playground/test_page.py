"""The page of the playground in headless Chromium: `make playground-test` builds the site and runs this."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from kprobe_sim.builds.profile import load

pytestmark = [pytest.mark.browser, pytest.mark.timeout(300)]

ROOT = Path(__file__).parents[2]
SCREENSHOTS = ROOT / "build" / "screenshots"
BY_NAME = "p:myopen do_sys_openat2 filename:ustring flags=how->flags"
OPEN = "p:myopen do_sys_openat2 filename=+0(%si):ustring"
LIMIT = 7_200_000  # bytes of files before the first answer

# of all elements that show text: those whose colours don't contrast by 4.5 to 1
PALE = """() => {
  const light = ([r, g, b]) => { const [x, y, z] = [r, g, b].map((v) => v / 255).map((v) =>
    v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4); return 0.2126 * x + 0.7152 * y + 0.0722 * z; };
  const numbers = (text) => text.match(/[\\d.]+/g).map(Number);
  const ground = (at) => { for (; at; at = at.parentElement) {
    const found = numbers(getComputedStyle(at).backgroundColor); if (found.length < 4 || found[3] > 0) return found; }
    return [255, 255, 255]; };
  const shown = [...document.querySelectorAll("body *")].filter((at) => at.checkVisibility()
    && [...at.childNodes].some((child) => child.nodeType === 3 && child.data.trim()));
  return [shown.length, shown.filter((at) => {
    const [a, b] = [light(numbers(getComputedStyle(at).color)), light(ground(at))].sort((x, y) => y - x);
    return (a + 0.05) / (b + 0.05) < 4.5;
  }).map((at) => `${at.tagName}.${at.className}: ${at.textContent.slice(0, 40)}`)];
}"""


def test_first_answer_needs_few_bytes(opened: Callable[..., Any], server: Any) -> None:
    before = server.sent
    page = opened()
    page.tab.goto(f"{page.url}#p=p:x+vfs_read&k=5.10")
    page.wait(0)
    assert page.tab.inner_text("#status") == "The kernel takes it."
    assert 2_000_000 < server.sent - before < LIMIT
    page.sane()


def test_refused_by_one_kernel_and_taken_by_another(page: Any) -> None:
    page.ask(BY_NAME)
    assert page.tab.inner_text("#status") == "1 of 2 kernels takes it; 5.10 doesn’t."
    assert page.tab.locator("#verdicts li").all_inner_texts() == ["✗\n5.10\nEINVAL", "✓\n7.3\ntaken"]
    assert page.tab.locator("article").nth(0).locator(".error").inner_text() == "EINVAL (22): Invalid argument"
    assert page.text("5.10", "error_log") == (
        "[   10.000000] trace_kprobe: error: Invalid fetch argument\n"
        "  Command: p:myopen do_sys_openat2 filename:ustring flags=how->flags\n"
        "                                   ^\n"
    )
    assert page.text("7.3", "kprobe_events") == (
        "p:kprobes/myopen do_sys_openat2 filename=filename:ustring flags=how->flags"
    )


def test_format(page: Any) -> None:
    page.ask(OPEN)
    assert page.text("5.10", "format").startswith(
        "name: myopen\nID: 1347\nformat:\n\tfield:unsigned short common_type;"
    )
    assert "\tfield:__data_loc char[] filename;\toffset:16;\tsize:4;\tsigned:1;\n" in page.text("5.10", "format")


def test_trace_and_calls(page: Any) -> None:
    page.ask(OPEN, kernels="7.3")
    lines = [line for line in page.text("7.3", "trace").splitlines() if line[0] != "#"]
    assert len(lines) == 6
    assert lines[-1].startswith("            cron-611     [000] .....    10.000005: myopen: (do_sys_openat2+0x0/0xe0) ")
    calls = page.tab.locator(".calls li").all_text_contents()
    assert calls[-1] == 'cron-611: do_sys_openat2(dfd=-100, filename="/etc/crontab", how) = -2'


def test_filter(page: Any) -> None:
    page.ask(OPEN, 'filename ~ "*/hostname"')
    for kernel in ("5.10", "7.3"):
        assert page.text(kernel, "filter") == 'filename ~ "*/hostname"\n'
        assert [line.split()[0] for line in page.text(kernel, "trace").splitlines() if line[0] != "#"] == ["cat-2841"]


def test_refused_filter(page: Any) -> None:
    page.ask(OPEN, 'name ~ "*/hostname"', "6.1,7.3")
    assert page.tab.inner_text("#status") == "Neither kernel takes it as it is."
    assert page.tab.locator("article .verdict").all_inner_texts() == ["filter: EINVAL", "filter: EINVAL"]
    assert page.text("6.1", "filter") == 'name ~ "*/hostname"\n     ^\nparse_error: Field not found\n'
    assert "error: Field not found\n  Command: name" in page.text("6.1", "error_log")


def test_errors_by_the_kernels_numbers(page: Any) -> None:
    """In WebAssembly ENOENT is 44, EILSEQ 25 and EEXIST 20; there is no such event, instruction and other place."""
    page.ask("-:nothing\np vfs_read+1\np:sched/sched_switch vfs_read", kernels="6.1")
    assert page.tab.locator("article .error").all_inner_texts() == [
        "ENOENT (2): No such file or directory",
        "EILSEQ (84): Invalid or incomplete multibyte or wide character",
        "EEXIST (17): File exists",
    ]


def test_asked_while_typing(page: Any) -> None:
    page.ask(OPEN, kernels="6.1")
    page.tab.fill("#definition", "")
    page.asking(lambda: page.tab.locator("#definition").press_sequentially("p:typed vfs_read", delay=5))
    page.tab.wait_for_function("document.querySelector('article pre')?.textContent === 'p:kprobes/typed vfs_read'")


def test_the_link_carries_the_question(page: Any, opened: Callable[..., Any]) -> None:
    page.ask("r:a+b do_sys_openat2 x=%ax\np:percent vfs_read # & %si", "a == 1 && b != 'ü'", "6.1,7.2")
    page.tab.click("#link")
    link = page.tab.evaluate("navigator.clipboard.readText()")
    assert link == page.tab.url
    other = opened()
    other.open(link.removeprefix(other.url))
    assert other.tab.input_value("#definition") == "r:a+b do_sys_openat2 x=%ax\np:percent vfs_read # & %si"
    assert other.tab.input_value("#filter") == "a == 1 && b != 'ü'"
    assert other.tab.locator("h3").all_inner_texts() == ["6.1", "7.2"]
    assert other.tab.inner_html("#cards") == page.tab.inner_html("#cards")
    other.sane()


def test_another_link_in_the_same_page(page: Any) -> None:
    page.asking(lambda: page.tab.evaluate("location.hash = '#p=p:again+vfs_write&k=6.12'"))
    assert page.text("6.12", "kprobe_events") == "p:kprobes/again vfs_write"


def test_examples(page: Any) -> None:
    page.ask(OPEN)
    for example in page.tab.locator("#examples a").all():
        page.asking(example.click)
        assert page.tab.locator("article").count() == 2
    assert page.tab.locator("#examples a").count() == 8


def test_what_is_opened_on_one_card_is_on_all(page: Any) -> None:
    page.ask(OPEN, kernels="5.10,6.1,7.3")
    formats = page.tab.locator("details[data-part=format]")
    assert [one.get_attribute("open") for one in formats.all()] == [None, None, None]  # of more than two kernels
    formats.nth(1).locator("summary").click()
    assert [one.get_attribute("open") for one in formats.all()] == ["", "", ""]
    formats.nth(0).locator("summary").press("Enter")
    assert [one.get_attribute("open") for one in formats.all()] == [None, None, None]
    page.ask(OPEN, kernels="5.10,7.3")
    assert [one.get_attribute("open") for one in formats.all()] == [None, None]  # as it was left
    formats.nth(0).locator("summary").click()


def test_a_caret_far_right_is_in_view_on_a_narrow_screen(page: Any) -> None:
    page.tab.set_viewport_size({"width": 400, "height": 800})
    page.ask(f"{OPEN} a=%ax b=%bx c=%cx d=%nothing", kernels="7.3")
    seen = """caret => { const text = document.createRange(); text.selectNodeContents(caret);
        return text.getBoundingClientRect().right < caret.closest("pre").getBoundingClientRect().right; }"""
    assert page.tab.locator(".caret").evaluate("caret => caret.closest('pre').scrollLeft") > 100
    assert page.tab.locator(".caret").evaluate(seen)
    page.tab.set_viewport_size({"width": 1280, "height": 720})


def test_nothing_to_ask(page: Any) -> None:
    page.ask(OPEN)
    page.asking(lambda: page.tab.fill("#definition", "  "))
    assert page.tab.inner_text("#status") == "Write a definition to see what kernels say to it."
    assert page.tab.locator("article").count() == 0
    page.ask(OPEN, kernels="none")
    assert page.tab.inner_text("#status") == "Choose a kernel to be asked."


def test_kernels_before_5_10(page: Any) -> None:
    page.ask("p:myopen do_sys_open filename=+0(%si):string", kernels="4.9,4.14,4.19,5.4")
    assert page.tab.inner_text("#status") == "All 4 kernels take it."
    assert '/etc/hostname"' in page.text("4.9", "trace")


def test_keyboard_alone(opened: Callable[..., Any]) -> None:
    page = opened().open("#p=p:x+vfs_read&k=5.10")
    tab, press = page.tab, page.tab.keyboard.press
    focused = "document.activeElement.id || document.activeElement.textContent"
    press("Tab")
    assert tab.evaluate(focused) == "Skip to the answers"
    press("Tab")
    assert tab.evaluate(focused) == "definition"
    press("Control+A")
    tab.keyboard.type("p:keys vfs_read")
    page.asking(lambda: press("Control+Enter"))
    assert page.text("5.10", "kprobe_events") == "p:kprobes/keys vfs_read"
    press("Tab")
    assert tab.evaluate(focused) == "filter"
    tab.keyboard.type("common_pid == 611")
    page.asking(lambda: press("Enter"))
    assert [line.split()[0] for line in page.text("5.10", "trace").splitlines() if line[0] != "#"] == ["cron-611"]
    while tab.evaluate("document.activeElement.value") != "6.1":
        press("Tab")
    page.asking(lambda: press("Space"))
    assert tab.locator("h3").all_inner_texts() == ["5.10", "6.1"]
    seen = []
    while "trace" not in seen and len(seen) < 60:
        press("Tab")
        seen.append(tab.evaluate("document.activeElement.getAttribute('aria-label') || document.activeElement.id"))
        assert tab.evaluate("document.activeElement.matches(':focus-visible')")
    assert seen[-1] == "trace"


def test_everything_has_a_name_for_screen_readers(page: Any) -> None:
    page.ask(OPEN)
    for element in page.tab.locator("button, input, textarea, select, a[href], summary, pre, [role=progressbar]").all():
        if element.is_visible():
            assert element.evaluate(
                "at => (at.labels?.[0] ?? at).textContent.trim() || at.getAttribute('aria-label')"
            ), element.evaluate("at => at.outerHTML")
    assert page.tab.get_attribute("#status", "aria-live") == "polite"
    assert page.tab.get_by_label("Definition").count() == 1
    assert page.tab.get_by_label("Filter").count() == 1
    assert page.tab.get_by_role("group", name="Kernels").get_by_role("checkbox").count() >= 5


@pytest.mark.parametrize("width", [1280, 400])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_how_it_looks(page: Any, scheme: str, width: int) -> None:
    tab = page.tab
    tab.emulate_media(color_scheme=scheme)
    tab.set_viewport_size({"width": width, "height": 800})
    try:
        for name, definition, event_filter in (
            ("answer", BY_NAME, ""),
            ("filter", OPEN, 'filname ~ "*passwd"'),
            ("empty", "", ""),
        ):
            page.ask(definition, event_filter)
            assert tab.evaluate("document.documentElement.scrollWidth") == width
            count, pale = tab.evaluate(PALE)
            assert count > 20
            assert pale == []
            SCREENSHOTS.mkdir(parents=True, exist_ok=True)
            tab.screenshot(path=SCREENSHOTS / f"{name}-{scheme}-{width}.png", full_page=True)
        dark = tab.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(16, 20, 24)"
        assert dark == (scheme == "dark")
    finally:
        tab.emulate_media(color_scheme="light")
        tab.set_viewport_size({"width": 1280, "height": 720})


def test_while_it_loads(opened: Callable[..., Any]) -> None:
    page = opened()
    held: list[Any] = []
    page.context.route("**/library.zip.*", lambda route: held.append(route))
    page.tab.goto(page.url)
    page.tab.wait_for_function("document.querySelector('#loaded').textContent.endsWith('MB')")
    assert page.tab.inner_text("#status") == "Loading kernels…"
    assert page.tab.is_visible("#progress")
    SCREENSHOTS.mkdir(parents=True, exist_ok=True)
    page.tab.screenshot(path=SCREENSHOTS / "loading-light-1280.png")
    while not held:
        page.tab.wait_for_timeout(20)
    held[0].continue_()
    page.wait(0)
    assert not page.tab.is_visible("#progress")
    page.sane()


def test_what_cant_be_fetched_is_said_and_tried_again(opened: Callable[..., Any]) -> None:
    page = opened()
    page.context.route("**/profiles/5.10*", lambda route: route.fulfill(status=404))
    page.open("#p=p:x+vfs_read&k=5.10")
    said = page.tab.get_by_role("alert").inner_text()
    assert "the server answers 404" in said
    SCREENSHOTS.mkdir(parents=True, exist_ok=True)
    page.tab.screenshot(path=SCREENSHOTS / "failed-light-1280.png")
    page.context.unroute("**/profiles/5.10*")
    page.asking(lambda: page.tab.click("#ask"))
    assert page.text("5.10", "kprobe_events") == "p:kprobes/x vfs_read"


ASK_ALL = """async (questions) => {
  const worker = new Worker("worker.js", { type: "module" });
  const answers = [];
  for (const [id, [release, definition, filter]] of questions.entries()) {
    worker.postMessage({ id: id + 1, definition, filter, releases: [release] });
    answers.push(await new Promise((resolve, reject) => { worker.onmessage = ({ data }) => {
      if (data.failed) reject(new Error(`${definition}: ${data.failed}`));
      if (data.answer) resolve(data.answer);
    }; }));
  }
  worker.terminate();
  return answers;
}"""


def sampled(recording: str, count: int) -> list[str]:
    """Return some of the definitions whose answers were recorded on 7.2."""
    lines = (ROOT / "fixtures" / recording / "7.2.jsonl").read_text(encoding="utf-8").splitlines()
    rows = [json.loads(line) for line in lines]
    inputs = list(dict.fromkeys(row["input"].rstrip("\n") for row in rows if "input" in row))
    return inputs[:: len(inputs) // count][:count]


def test_answers_are_those_of_cpython(page: Any, answers: ModuleType) -> None:
    definitions = [*sampled("definitions", 80), *sampled("kinds", 20)]
    assert len(set(definitions)) == 100
    kernels = page.tab.evaluate("import('./site.js').then(({ kernels }) => kernels.map((kernel) => kernel.release))")
    questions = [(kernel, definition, "common_pid > 1000") for kernel in kernels for definition in definitions]
    found = page.tab.evaluate(ASK_ALL, questions)
    paths = {kernel: str(load(kernel).path) for kernel in kernels}
    expected = [json.loads(answers.ask(paths[kernel], *question)) for kernel, *question in questions]
    assert [
        (question, one) for question, one, other in zip(questions, found, expected, strict=True) if one != other
    ] == []
    assert sum(bool(command["error"]) for one in found for command in one["commands"]) > 100
    assert sum(bool(one["trace"]) for one in found) > 100
