"""How docstrings become Markdown on the reference pages: equations, and examples as code."""

import re

import griffe

BLOCK = re.compile(r"^( *)\.\. math::[ ]*(.*(?:\n(?:\1 +\S.*))*)", re.MULTILINE)
EXAMPLE = re.compile(r"^( *)Example:$", re.MULTILINE)
INLINE = re.compile(r":math:`([^`]+)`")


def in_markdown(text: str) -> str:
    """The text with `.. math::` and `:math:` as equations between dollars.

    An `Example:` becomes `Examples:`, which mkdocstrings takes for code.

    >>> in_markdown("the mean :math:`\\\\mu`")
    'the mean $\\\\mu$'
    """
    text = BLOCK.sub(lambda found: f"{found[1]}$$\n{found[2].strip()}\n{found[1]}$$\n", text)
    text = EXAMPLE.sub(r"\1Examples:", text)
    return INLINE.sub(r"$\1$", text)


class Docstrings(griffe.Extension):
    """Rewrites every docstring when it has been read."""

    def on_object(self, *, obj: griffe.Object, **_: object) -> None:
        """Rewrite the docstring of a module, class, function or attribute."""
        if obj.docstring:
            obj.docstring.value = in_markdown(obj.docstring.value)
