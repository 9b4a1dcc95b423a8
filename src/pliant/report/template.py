"""The HTML template of the page and its style sheet, for light and dark screens and for print."""

# The security policy makes the browser block everything that is not inside the file.
PAGE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy"
 content="default-src 'none'; img-src data:; media-src data:; style-src 'unsafe-inline'">
<title>{title}</title>
<style>{css}</style>
</head>
<body>
<main>
<header>{head}</header>
{body}
<footer>Made by Pliant.</footer>
</main>
</body>
</html>
"""

CSS = """
:root { color-scheme: light dark; --ink: #22262b; --faint: #68707a; --paper: #ffffff;
  --back: #f4f5f7; --line: #e1e4e8;
  --good: #00694c; --good-back: #dff3ec; --bad: #9a3412; --bad-back: #fdeadd; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e6e8eb; --faint: #9aa3ad; --paper: #1b1e22; --back: #131518; --line: #32373d;
    --good: #6fd6b0; --good-back: #12372c; --bad: #f5b08a; --bad-back: #43230f; }
  .plot img { filter: invert(0.9) hue-rotate(180deg); }
}
* { box-sizing: border-box; }
body { margin: 0; background: var(--back); color: var(--ink);
  font: 16px/1.55 system-ui, "Segoe UI", Roboto, sans-serif; }
main { max-width: 62rem; margin: 0 auto; padding: 2.5rem 1.25rem; }
h1 { font-size: 1.9rem; line-height: 1.2; margin: 0 0 .3rem; overflow-wrap: anywhere; }
h2 { font-size: 1.05rem; margin: 0 0 .8rem; }
header { margin-bottom: 1.75rem; }
header p { margin: .45rem 0; max-width: 46rem; }
.paper { color: var(--faint); }
.shows { font-size: 1.1rem; }
.status { display: inline-block; padding: .12rem .7rem; border-radius: 1rem; font-size: .92rem;
  font-weight: 600; }
.good { color: var(--good); background: var(--good-back); }
.bad { color: var(--bad); background: var(--bad-back); border-radius: .5rem; }
section { background: var(--paper); border: 1px solid var(--line); border-radius: .75rem;
  padding: 1.25rem 1.4rem;
  margin-bottom: 1.25rem; break-inside: avoid; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-size: .95rem; }
th, td { text-align: left; padding: .45rem .9rem .45rem 0; border-bottom: 1px solid var(--line);
  vertical-align: top; }
tbody tr:last-child > * { border-bottom: 0; }
thead th { color: var(--faint); font-weight: 500; font-size: .85rem; }
tbody th { font-weight: 500; }
.number { text-align: right; font-variant-numeric: tabular-nums; padding-right: 1.2rem; }
.pairs th { width: 14rem; color: var(--faint); }
.plots { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(26rem, 100%), 1fr));
  gap: 1rem; }
figure { margin: 0; text-align: center; }
figure + figure { margin-top: 1rem; }
.plots figure { margin: 0; }
img, video { max-width: 100%; height: auto; border-radius: .4rem; }
.plot img { width: 100%; }
footer { color: var(--faint); font-size: .85rem; text-align: center; margin-top: 2rem; }
"""
