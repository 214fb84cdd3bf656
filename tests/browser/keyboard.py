"""Use the page by keyboard, and see where the focus is."""

from typing import Any

from playwright.sync_api import FloatRect, Locator, Page, expect

from tests.support import eventually

LEAST_OUTLINE_PX = 2
OUTLINE_PX = """node => {
  const style = getComputedStyle(node);
  return style.outlineStyle === 'none' ? 0 : parseFloat(style.outlineWidth);
}"""
TWO_FRAMES = """() => new Promise(done =>
  requestAnimationFrame(() => requestAnimationFrame(done)))"""
"""Wait until what has changed is drawn, so that a screenshot shows it on a busy machine, too."""

UNREACHED = """() => [...document.querySelectorAll('a[href], button, input, summary')]
  .filter(node => node.checkVisibility() && !node.matches('.tile') && !('reached' in node.dataset))
  .map(node => node.outerHTML)"""
"""The controls that are visible, and that `reach` has never been asked for, except tiles."""

NEXT_KEY = """node => {
  const focused = document.activeElement;
  if (node === focused) return null;
  return node.compareDocumentPosition(focused) & Node.DOCUMENT_POSITION_FOLLOWING
    ? 'Shift+Tab' : 'Tab';
}"""
"""The key that leads from the focus to an element, null if it has the focus.

Without a focus it is Tab, which goes on from where a link has led.
"""


def press(page: Page, control: Locator, keys: str = "Enter") -> None:
    """Reach a control by Tab, see that the focus shows, and press Enter or type the keys."""
    reach(page, control)
    assert_focus_is_visible(page, control)
    if keys == "Enter":
        page.keyboard.press(keys)
    else:
        page.keyboard.type(keys)


def focused_rack(page: Page) -> str:
    """Return the rack whose tile has the focus."""
    return str(page.evaluate("document.activeElement.dataset.rack"))


def reach(page: Page, wanted: Locator) -> None:
    """Press Tab, or Shift and Tab, until an element has the focus, for at most the whole page."""
    wanted.evaluate("node => { node.dataset.reached = ''; }")
    for _ in range(200):
        key = wanted.evaluate(NEXT_KEY)
        if key is None:
            return
        page.keyboard.press(key)
    raise AssertionError("Tab does not reach it")


def at_rest(node: Locator) -> FloatRect:
    """Return where an element is, once it has stopped moving, as the panel does while it fills."""
    seen: list[FloatRect | None] = [None]

    def same_again() -> FloatRect | None:
        seen.append(node.bounding_box())
        return seen[-1] if seen[-1] == seen[-2] else None

    box = eventually(same_again, every_s=0.1)
    assert box is not None
    return box


def assert_focus_is_visible(page: Page, focused: Locator) -> None:
    """Compare an element with and without the focus: its outline, and how it looks."""
    focused.scroll_into_view_if_needed()
    expect(focused).to_be_in_viewport()  # on a busy machine it rests before it has moved
    box = at_rest(focused)
    around: Any = {
        "x": max(0, box["x"] - 6),
        "y": max(0, box["y"] - 6),
        "width": box["width"] + 12,
        "height": box["height"] + 12,
    }
    assert focused.evaluate("node => node === document.activeElement")
    page.evaluate(TWO_FRAMES)
    with_focus = page.screenshot(clip=around, animations="disabled")
    outlined = focused.evaluate(OUTLINE_PX)
    focused.evaluate("node => node.blur()")
    page.evaluate(TWO_FRAMES)
    without = page.screenshot(clip=around, animations="disabled")
    # The page lives, so screenshots may differ by themselves; and an outline may be covered.
    assert focused.evaluate(OUTLINE_PX) == 0
    assert outlined >= LEAST_OUTLINE_PX
    focused.evaluate("node => node.focus({focusVisible: true})")
    assert with_focus != without, "the focus does not show"
