"""What kernels tell of when a value is unfit: words, and the errors that they stand for.

A kernel that meets an index out of range, a divisor that is 0, a matrix that cannot be factored or
solved with, a message between ranks that is not delivered, or ranks that do not do the same, tells
so in one more value, ``step.writes[step.status]``: int64 ``(tasks, 2)``, for each task 0 and
anything, or ``BAD_INDEX`` and the index, or ``DIVIDED`` and anything, or ``UNSOLVED``, ``LOST`` or
``UNLIKE`` and the number for the text.
The driver looks at these words behind the call; where one is set, it stops and raises
``failed(word, step.failure, index)``. What the kernel would have written is then undefined, but no
memory outside its arrays was read or written.
"""

from __future__ import annotations

from fx.backends.cpu import collective
from fx.errors import DistError, DivisionError, FxError, IndexingError, LinAlgError

BAD_INDEX, DIVIDED, UNSOLVED, LOST, UNLIKE = 1, 2, 3, 4, 5


class MessageLost(DistError):
    """A message between ranks is not delivered. A second line of the text is for who differs."""

    def __init__(self, text: str) -> None:
        super().__init__(text.partition("\n")[0])


class RanksDiffer(DistError):
    """Ranks do not do the same.

    A kernel knows its own side alone: when the error is made of its text, the ranks tell each other
    what they do, which all of them come to, since all have found that they differ. Of a message
    between two, of another number of bytes than its place, the second line of the text tells,
    behind which that number stands, which ends the first as MPI's code.
    """

    def __init__(self, text: str) -> None:
        first, _, second = text.partition("\n")
        super().__init__(second + first.rpartition(" ")[2] if second else collective.told(text))


# of the words, from 1 on
ERRORS = (IndexingError, DivisionError, LinAlgError, MessageLost, RanksDiffer)


def failed(word: int, message: str, index: int) -> FxError:
    """What to raise where a kernel told of an unfit value.

    Args:
        word: ``BAD_INDEX``, ``DIVIDED``, ``UNSOLVED``, ``LOST`` or ``UNLIKE``.
        message: a format of C, which may take the index as 64 bits.
        index: as the signed number of its 64 bits.
    """
    if "%ll" in message:
        index = index % 2**64 if "%llu" in message else index
        message = message.replace("%ll", "%") % index
    return ERRORS[word - 1](message)
