// Loads the guides of `docs/guides`, and the runbook of `docs/runbook`, as pages and searchable sections.
import { readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { Marked, type Token, type Tokens } from 'marked'
import { ROOT } from '#core/root.ts'

const FOLDER = fileURLToPath(new URL('docs/guides/', ROOT))
/** A page for each alert of deploy/prometheus/rules.yaml, named like the alert. */
const RUNBOOK_FOLDER = fileURLToPath(new URL('docs/runbook/', ROOT))

/** The files of guides that are not in the folder, by the name of the guide. */
const FILES_ELSEWHERE: Readonly<Record<string, string>> = {
  sdk: '../../sdk/README.md',
  configuration: '../configuration.md',
}

/** A hidden line at the top of a guide or under the heading of a section. */
const KEYWORDS = /^<!-- keywords: (.*) -->/

/** A search with more words takes longer and hardly finds more. */
const MAX_SEARCH_WORDS = 8

/** A heading and the text up to the next heading. An empty `anchor` is the top of the page. */
export type Section = {
  anchor: string
  title: string
  text: string
  keywords: string[]
  search_text: SearchText
}

type SectionContent = Omit<Section, 'search_text'>

/**
 * The searched text, in lower case. `all` also has the keywords of the section, and the title and keywords of the
 * guide.
 */
type SearchText = { title: string; text: string; all: string }

export type Guide = {
  /** The last segment of the path; empty for the index. */
  name: string
  path: string
  title: string
  html: string
  sections: Section[]
}

/** The index, all guides in its order, and the pages of the runbook. */
export type Library = { index: Guide; guides: Guide[]; runbook: Guide[] }

/** A guide in the index. `about`: its description, in Markdown. */
export type ListedGuide = { name: string; title: string; about: string }

const INDEX_ENTRY =
  /^- \[(.+)\]\((?:\.\.\/\.\.\/(?=sdk)|\.\.\/(?=configuration))?([a-z0-9-]+)(?:\/README)?\.md\): (.+)$/gm

/** The guides that the index, README.md, lists. */
export async function listGuides(): Promise<ListedGuide[]> {
  const index = await readFile(join(FOLDER, 'README.md'), 'utf8')
  return Array.from(index.matchAll(INDEX_ENTRY), ([, title, name, about]) => ({
    title: title!,
    name: name!,
    about: about!,
  }))
}

/** Loads the index, all guides and the runbook. */
export async function loadLibrary(): Promise<Library> {
  const listed = await listGuides()
  const alerts = (await readdir(RUNBOOK_FOLDER)).map((file) => file.replace('.md', '')).toSorted()
  const guideAt = (name: string, file: string) => readGuide(name, `/docs/guides/${name}`, join(FOLDER, file))
  return {
    index: await readGuide('', '/docs/guides', join(FOLDER, 'README.md')),
    guides: await Promise.all(listed.map(({ name }) => guideAt(name, FILES_ELSEWHERE[name] ?? `${name}.md`))),
    runbook: await Promise.all(
      alerts.map((name) => readGuide(name, `/docs/runbook/${name}`, join(RUNBOOK_FOLDER, `${name}.md`))),
    ),
  }
}

/** The first eight different words of a query. */
export function searchWords(query: string): string[] {
  return [...new Set(wordsOf(query))].slice(0, MAX_SEARCH_WORDS)
}

function wordsOf(text: string): string[] {
  return text.toLowerCase().match(/[\p{L}\p{N}_-]+/gu) ?? []
}

/** `beneficiaries` -> `beneficiary`. A word that does not look like a plural stays unchanged. */
function singularOf(word: string): string {
  return word
    .replace(/(?<=..)ies$/, 'y')
    .replace(/(?<=ch|sh|ss|us|x)es$/, '')
    .replace(/(?<=..[^su])s$/, '')
}

/**
 * The pattern that finds a word: at the beginning of words, or also within words if `anywhere`. The singular of the
 * word is found only as a complete word.
 */
function patternOf(word: string, anywhere: boolean): string {
  const singular = singularOf(word)
  const word_pattern = anywhere ? RegExp.escape(word) : `(?<![\\p{L}\\p{N}])${RegExp.escape(word)}`
  return singular === word
    ? word_pattern
    : `${word_pattern}|(?<![\\p{L}\\p{N}_-])${RegExp.escape(singular)}(?![\\p{L}\\p{N}_-])`
}

type SearchResult = { found: { guide: Guide; section: Section }[]; patterns: string[] }

/**
 * The sections with words that begin with the given words. If there are none, the sections that contain the given words
 * anywhere.
 */
export function search(guides: Guide[], words: string[]): SearchResult {
  for (const anywhere of [false, true]) {
    const patterns = words.map((word) => patternOf(word, anywhere))
    const found = sectionsWith(guides, words, patterns)
    if (found.length > 0) return { found, patterns }
  }
  return { found: [], patterns: [] }
}

/** The sections that contain all words or their singulars. Matching keywords rank first, then matching titles. */
function sectionsWith(guides: Guide[], words: string[], sources: string[]): SearchResult['found'] {
  if (words.length === 0) return []
  const patterns = sources.map((source) => new RegExp(source, 'u'))
  const countMatches = (...texts: string[]) =>
    patterns.filter((pattern) => texts.some((text) => pattern.test(text))).length
  const found = guides.flatMap((guide) =>
    guide.sections.map((section) => {
      const { title, text, all } = section.search_text
      const has_all_words = countMatches(all) === words.length
      const matches = countMatches(title, text)
      const title_matches = countMatches(title)
      const isKeyword = (word: string) =>
        section.keywords.includes(word) || section.keywords.includes(singularOf(word))
      const keyword_matches = words.filter(isKeyword).length
      return {
        guide,
        section,
        score:
          has_all_words && matches + keyword_matches > 0
            ? matches + 5 * title_matches + 10 * keyword_matches
            : 0,
      }
    }),
  )
  return found.filter(({ score }) => score > 0).toSorted((a, b) => b.score - a.score)
}

export function escapeHtml(text: string): string {
  return text
    .replaceAll('&', '&amp;')
    .replaceAll('<', '&lt;')
    .replaceAll('>', '&gt;')
    .replaceAll('"', '&quot;')
}

async function readGuide(name: string, path: string, file: string): Promise<Guide> {
  const markdown = await readFile(file, 'utf8')
  // Guides link to each other by file name: these links are replaced by links to pages.
  const linked = Object.entries(FILES_ELSEWHERE)
    .reduce((text, [guide, path]) => text.replaceAll(`](${path}`, `](/docs/guides/${guide}`), markdown)
    .replaceAll(/\]\((?:\.\.\/)?guides\//g, '](')
    .replaceAll('](../README.md', '](/docs/guides')
    .replaceAll('](../images/', '](/docs/images/')
    .replaceAll(/\]\(([a-z0-9-]+)\.md/g, '](/docs/guides/$1')
    .replaceAll(/\]\((?:\.\.\/runbook\/)?([A-Z][A-Za-z]+)\.md/g, '](/docs/runbook/$1')
  const tokens = marked.lexer(linked)
  const sections = sectionsOf(tokens)
  const { title, keywords } = sections[0]!
  const guide_text = `${keywords.join(' ')} ${title.toLowerCase()}`
  return {
    name,
    path,
    title,
    html: marked.parser(tokens.filter((token) => keywordsIn(token) === undefined)),
    sections: sections.map((section) => ({ ...section, search_text: searchTextOf(section, guide_text) })),
  }
}

function searchTextOf(section: SectionContent, guide_text: string): SearchText {
  const [title, text] = [section.title.toLowerCase(), section.text.toLowerCase()]
  return { title, text, all: `${guide_text} ${section.keywords.join(' ')} ${title} ${text}` }
}

const marked = new Marked({
  renderer: {
    heading({ tokens, depth, text }) {
      const inner = this.parser.parseInline(tokens)
      if (depth === 1) return `<h1>${inner}</h1>\n`
      const anchor = anchorOf(text)
      return `<h${depth} id="${anchor}"><a href="#${anchor}">${inner}</a></h${depth}>\n`
    },
    table({ header, rows }) {
      // On a narrow screen the cells of a row are stacked, and each cell except the first shows the name of its column.
      const heads = header.map(({ text }, index) =>
        index === 0 || text === '' ? '' : ` data-head="${escapeHtml(text.replaceAll('`', ''))}"`,
      )
      const row = (cells: Tokens.TableCell[], opening: (index: number) => string) =>
        `<tr>${cells.map(({ tokens }, index) => `<${opening(index)}>${this.parser.parseInline(tokens)}`).join('')}</tr>\n`
      const body = rows.map((cells) => row(cells, (index) => `td${heads[index]}`)).join('')
      return scrollable(`<table><thead>${row(header, () => 'th')}</thead><tbody>${body}</tbody></table>`)
    },
    code: ({ text }) => scrollable(`<pre><code>${escapeHtml(text)}</code></pre>`, 'code'),
  },
})

// Content that is wider than the page scrolls on its own, also by keyboard.
function scrollable(html: string, kind = 'table'): string {
  return `<div class="scrollable ${kind}" tabindex="0">${html}</div>\n`
}

/** `Prefer: wait=N` -> `prefer-waitn`. The name of an error code stays unchanged. */
function anchorOf(text: string): string {
  return text
    .toLowerCase()
    .replaceAll(/[^\p{L}\p{N}_ -]/gu, '')
    .trim()
    .replaceAll(' ', '-')
}

/** The search keywords of a token; undefined if it is no keyword line. */
function keywordsIn({ type, raw }: Token): string[] | undefined {
  const listed = type === 'html' ? KEYWORDS.exec(raw)?.[1] : undefined
  return listed === undefined ? undefined : wordsOf(listed)
}

function sectionsOf(tokens: Token[]): SectionContent[] {
  const sections: SectionContent[] = []
  // The keywords of a guide come before its title.
  let guide_keywords: string[] = []
  for (const token of tokens) {
    const keywords = keywordsIn(token)
    if (keywords !== undefined) {
      const section = sections.at(-1)
      if (section === undefined) guide_keywords = keywords
      else section.keywords.push(...keywords)
    } else if (token.type === 'heading') {
      const { depth, text } = token as Tokens.Heading
      const title = text.replaceAll('`', '')
      sections.push({ anchor: depth === 1 ? '' : anchorOf(text), title, text: '', keywords: guide_keywords })
      guide_keywords = []
    } else if (token.type !== 'space') {
      const section = sections.at(-1)
      if (section === undefined) throw new Error('A guide has text before its title.')
      section.text += ` ${plainText(token.raw)}`
    }
  }
  return sections
}

function plainText(markdown: string): string {
  return markdown
    .replaceAll(/\]\([^)]*\)/g, '')
    .replaceAll(/^```.*$/gm, '')
    .replaceAll(/[`*|[\]]|^[-#>]+ |-{3,}/gm, ' ')
    .replaceAll(/\s+/g, ' ')
    .trim()
}
