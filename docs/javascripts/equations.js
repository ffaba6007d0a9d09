// Sets the equations of a page with KaTeX.
for (const place of document.querySelectorAll(".arithmatex")) {
  const source = place.textContent.trim();
  const displayMode = source.startsWith("\\[");
  katex.render(source.slice(2, -2), place, { displayMode, throwOnError: false });
}
