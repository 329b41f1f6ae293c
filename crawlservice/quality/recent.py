"""Recent: the latest items, or pages, of a run in blocks, so that every stretch of it that ends now
can be looked at. Older blocks are larger, so there are few.

The blocks are those of ADWIN (Bifet and Gavaldà, Learning from Time-Changing Data with Adaptive
Windowing, SIAM International Conference on Data Mining, 2007): of more than SIZE_BLOCKS blocks of
one size, the two oldest become one of twice the size."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from crawlservice.quality.profile import Content

BLOCK = 5  # items or pages of the smallest blocks
SIZE_BLOCKS = 3  # blocks of one size
LEVELS = 7  # sizes; items older than the largest blocks are dropped: some 1,000 items are looked at
STEP = 4  # smallest blocks


class Block(msgspec.Struct, array_like=True):
    """``at``: Unix time of its first item or page. ``level``: how often it was doubled."""

    at: float
    content: Content = msgspec.field(default_factory=Content)
    level: int = 0


class Recent(msgspec.Struct, array_like=True):
    """``blocks``: full blocks, the oldest first. ``open``: the block being filled. ``step``: the
    smallest blocks that were filled last, until they are STEP."""

    blocks: list[Block] = []
    open: Block | None = None
    step: Content = msgspec.field(default_factory=Content)
    step_at: float = 0.0
    step_blocks: int = 0

    def block(self, at: float) -> Content:
        """The block to which the next item or page is added."""
        if self.open is None:
            self.open = Block(at)
        return self.open.content

    def close(self) -> Content | None:
        """Closes the open block. Returns the step if that is complete now."""
        block, self.open = self.open, None
        assert block is not None
        if not self.step_blocks:
            self.step_at = block.at
        self.step.merge(block.content)
        self.step_blocks += 1
        self._keep(block)
        if self.step_blocks < STEP:
            return None
        step, self.step, self.step_blocks = self.step, Content(), 0
        return step

    def unmerged(self) -> Iterator[Content]:
        """Contents that no returned step has."""
        yield self.step
        if self.open is not None:
            yield self.open.content

    def stretches(self) -> Iterator[tuple[float, Content]]:
        """Stretches that end now, the shortest first: their start, and their content, which grows.
        Each is longer by half than its predecessor."""
        whole, last = Content(), 0
        blocks = [*self.blocks, self.open] if self.open is not None else self.blocks
        for block in reversed(blocks):
            whole.merge(block.content)
            size = whole.items + whole.pages
            if size >= BLOCK and 2 * size >= 3 * last:
                last = size
                yield block.at, whole

    def _keep(self, block: Block) -> None:
        blocks = self.blocks
        blocks.append(block)
        for level in range(LEVELS):
            alike = [place for place, one in enumerate(blocks) if one.level == level]
            if len(alike) <= SIZE_BLOCKS:
                return
            first, second = alike[:2]
            if level == LEVELS - 1:
                del blocks[first]
                return
            blocks[first].content.merge(blocks[second].content)
            blocks[first].level += 1
            del blocks[second]
