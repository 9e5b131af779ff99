// Renders the guides as pages without scripts and without content from other hosts.
import { escapeHtml, search, searchWords, type Guide, type Library, type Section } from './library.ts'

const EXCERPT_LENGTH = 220
const MAX_RESULTS = 30

/** The page of a guide, of the index or of the runbook. */
export function guidePage(library: Library, guide: Guide): string {
  const contents = guide.sections.filter(({ anchor }) => anchor !== '')
  const list = contents
    .map(({ anchor, title }) => `<li><a href="#${anchor}">${escapeHtml(title)}</a></li>`)
    .join('')
  const contents_nav = `<nav class="contents" aria-label="On this page"><h2>On this page</h2><ul>${list}</ul></nav>`
  return page(library, {
    title: guide.title,
    current: guide.name,
    main: `<article>${guide.html}${nextLink(library, guide)}</article>${contents.length > 1 ? contents_nav : ''}`,
  })
}

/** The page of search results. */
export function searchPage(library: Library, query: string): string {
  const words = searchWords(query)
  const { found, patterns } = search([...library.guides, ...library.runbook], words)
  const results = found
    .slice(0, MAX_RESULTS)
    .map(({ guide, section }) => resultItem(guide, section, patterns))
  const count = found.length === 1 ? '1 section' : `${found.length} sections`
  const status_text =
    words.length === 0 ? 'Type the words to search for.' : `${count} with “${escapeHtml(words.join(' '))}”.`
  const help = `<p>Try other or fewer words, or browse <a href="/docs/guides">all guides</a>.</p>`
  return page(library, {
    title: 'Search',
    current: null,
    query,
    main: `<article><h1>Search</h1><p role="status">${status_text}</p>${found.length === 0 ? help : ''}<ol class="results">${results.join('\n')}</ol></article>`,
  })
}

/** The page for an unknown guide. */
export function missingPage(library: Library): string {
  const main = `<article><h1>There is no such guide</h1><p>Browse <a href="/docs/guides">all guides</a>.</p></article>`
  return page(library, { title: 'Not found', current: null, main })
}

function page(
  { guides }: Library,
  {
    title,
    current,
    main,
    query = '',
  }: { title: string; current: string | null; main: string; query?: string },
): string {
  const links = guides
    .map(({ name, path, title }) => {
      const mark = name === current ? ' aria-current="page"' : ''
      return `<li><a href="${path}"${mark}>${escapeHtml(title)}</a></li>`
    })
    .join('\n')
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>${escapeHtml(title)} · Sluice</title>
<link rel="stylesheet" href="/docs/guides/style.css">
</head>
<body>
<a class="skip" href="#main">Skip to the text</a>
<header>
<a class="brand" href="/docs/guides">Sluice guides</a>
<form action="/docs/guides/search" role="search"><input type="search" name="q" value="${escapeHtml(query)}" placeholder="Search the guides" aria-label="Search the guides"><button>Search</button></form>
<a href="/docs/">API reference</a>
</header>
<div class="columns">
<nav class="guides" aria-label="Guides"><details><summary>All guides</summary><ul>${links}</ul></details><ul class="expanded">${links}</ul></nav>
<main id="main">${main}</main>
</div>
</body>
</html>
`
}

function nextLink({ guides }: Library, guide: Guide): string {
  const next = guides.includes(guide) ? guides[guides.indexOf(guide) + 1] : undefined
  if (next === undefined) return ''
  return `<p class="next">Next: <a href="${next.path}">${escapeHtml(next.title)}</a></p>`
}

function resultItem(guide: Guide, { anchor, title, text, search_text }: Section, patterns: string[]): string {
  const address = `${guide.path}${anchor === '' ? '' : `#${anchor}`}`
  const name = title === guide.title ? title : `${guide.title}: ${title}`
  const at = Math.max(0, ...patterns.map((pattern) => search_text.text.search(new RegExp(pattern, 'u'))))
  const from = at < EXCERPT_LENGTH / 2 ? 0 : text.indexOf(' ', at - EXCERPT_LENGTH / 2)
  const excerpt = `${from > 0 ? '… ' : ''}${text.slice(from, from + EXCERPT_LENGTH).replace(/\s+\S*$/, '')} …`
  return `<li><a href="${address}">${highlighted(name, patterns)}</a><p>${highlighted(excerpt, patterns)}</p></li>`
}

function highlighted(text: string, patterns: string[]): string {
  const any = new RegExp(`(${patterns.join('|')})`, 'giu')
  return text
    .split(any)
    .map((part, index) => (index % 2 === 1 ? `<mark>${escapeHtml(part)}</mark>` : escapeHtml(part)))
    .join('')
}
