// The guides of `docs/guides`: read once, as pages and as sections that can be searched.
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { Marked, type Token, type Tokens } from 'marked'

const FOLDER = fileURLToPath(new URL('../../../docs/guides/', import.meta.url))

/** Is a guide too. */
const SDK = '../../sdk/README.md'

/** As the first line of a guide, or under the heading of a section; it is not shown. */
const KEYWORDS = /^<!-- keywords: (.*) -->/

/** More words cost more to look for, and hardly find more. */
const MAX_SEARCH_WORDS = 8

/** A heading and what stands under it, up to the next. `anchor` empty: the top of the page. */
export type Section = {
  anchor: string
  title: string
  text: string
  keywords: string[]
  search_text: SearchText
}

type SectionContent = Omit<Section, 'search_text'>

/** What is searched, in lower case. `all`: with the keywords of the section, and title and keywords of the guide. */
type SearchText = { title: string; text: string; all: string }

export type Guide = {
  /** As in the address; empty for the index. */
  name: string
  title: string
  html: string
  sections: Section[]
}

/** The index, and the guides in its order. */
export type Library = { index: Guide; guides: Guide[] }

/** A guide as the index has it. `about`: what it is for, in Markdown. */
export type ListedGuide = { name: string; title: string; about: string }

const INDEX_ENTRY = /^- \[(.+)\]\((?:\.\.\/\.\.\/(?=sdk))?([a-z0-9-]+)(?:\/README)?\.md\): (.+)$/gm

/** The guides that there are; the index, README.md, says so. */
export async function listGuides(): Promise<ListedGuide[]> {
  const index = await readFile(join(FOLDER, 'README.md'), 'utf8')
  return Array.from(index.matchAll(INDEX_ENTRY), ([, title, name, about]) => ({
    title: title!,
    name: name!,
    about: about!,
  }))
}

/** Reads all guides. */
export async function loadLibrary(): Promise<Library> {
  const listed = await listGuides()
  const [index, ...guides] = await Promise.all([
    readGuide('', 'README.md'),
    ...listed.map(({ name }) => readGuide(name, name === 'sdk' ? SDK : `${name}.md`)),
  ])
  return { index, guides }
}

/** What is looked for: the first eight different words. */
export function searchWords(query: string): string[] {
  return [...new Set(wordsOf(query))].slice(0, MAX_SEARCH_WORDS)
}

function wordsOf(text: string): string[] {
  return text.toLowerCase().match(/[\p{L}\p{N}_-]+/gu) ?? []
}

/** `beneficiaries` -> `beneficiary`; what does not look like a plural stays as it is. */
function singularOf(word: string): string {
  return word
    .replace(/(?<=..)ies$/, 'y')
    .replace(/(?<=ch|sh|ss|us|x)es$/, '')
    .replace(/(?<=..[^su])s$/, '')
}

/** What finds a word: what begins with it, or (`anywhere`) has it in it, and its singular as a whole word. */
function patternOf(word: string, anywhere: boolean): string {
  const singular = singularOf(word)
  const word_pattern = anywhere ? RegExp.escape(word) : `(?<![\\p{L}\\p{N}])${RegExp.escape(word)}`
  return singular === word
    ? word_pattern
    : `${word_pattern}|(?<![\\p{L}\\p{N}_-])${RegExp.escape(singular)}(?![\\p{L}\\p{N}_-])`
}

type SearchResult = { found: { guide: Guide; section: Section }[]; patterns: string[] }

/** As `sectionsWith`: where words begin so, or else, if that finds nothing, anywhere in them. */
export function search(guides: Guide[], words: string[]): SearchResult {
  for (const anywhere of [false, true]) {
    const patterns = words.map((word) => patternOf(word, anywhere))
    const found = sectionsWith(guides, words, patterns)
    if (found.length > 0) return { found, patterns }
  }
  return { found: [], patterns: [] }
}

/**
 * The sections that contain all words: first those with a matching keyword, then those with a word in the title. The
 * singular does where a plural is looked for.
 */
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

async function readGuide(name: string, file: string): Promise<Guide> {
  const markdown = await readFile(join(FOLDER, file), 'utf8')
  // In the folder a link names a file.
  const linked = markdown
    .replaceAll(`](${SDK}`, '](/docs/guides/sdk')
    .replaceAll('](../README.md', '](/docs/guides')
    .replaceAll('](../images/', '](/docs/images/')
    .replaceAll(/\]\(([a-z0-9-]+)\.md/g, '](/docs/guides/$1')
  const tokens = marked.lexer(linked)
  const sections = sectionsOf(tokens)
  const { title, keywords } = sections[0]!
  const before = `${keywords.join(' ')} ${title.toLowerCase()}`
  return {
    name,
    title,
    html: marked.parser(tokens.filter((token) => keywordsIn(token) === undefined)),
    sections: sections.map((section) => ({ ...section, search_text: searchTextOf(section, before) })),
  }
}

function searchTextOf(section: SectionContent, before: string): SearchText {
  const [title, text] = [section.title.toLowerCase(), section.text.toLowerCase()]
  return { title, text, all: `${before} ${section.keywords.join(' ')} ${title} ${text}` }
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
      // On a narrow screen the cells of a row stand below each other, and all but the first name their column.
      const heads = header.map(({ text }, at) =>
        at === 0 || text === '' ? '' : ` data-head="${escapeHtml(text.replaceAll('`', ''))}"`,
      )
      const row = (cells: Tokens.TableCell[], opening: (at: number) => string) =>
        `<tr>${cells.map(({ tokens }, at) => `<${opening(at)}>${this.parser.parseInline(tokens)}`).join('')}</tr>\n`
      const body = rows.map((cells) => row(cells, (at) => `td${heads[at]}`)).join('')
      return scrollable(`<table><thead>${row(header, () => 'th')}</thead><tbody>${body}</tbody></table>`)
    },
    code: ({ text }) => scrollable(`<pre><code>${escapeHtml(text)}</code></pre>`, 'code'),
  },
})

// What is wider than the page scrolls by itself, also by keyboard.
function scrollable(html: string, kind = 'table'): string {
  return `<div class="scrolled ${kind}" tabindex="0">${html}</div>\n`
}

/** `Prefer: wait=N` -> `prefer-waitn`; the name of a code stays as it is. */
function anchorOf(text: string): string {
  return text
    .toLowerCase()
    .replaceAll(/[^\p{L}\p{N}_ -]/gu, '')
    .trim()
    .replaceAll(' ', '-')
}

/** Words that people may search for and that the text may not contain; undefined: the token has none. */
function keywordsIn({ type, raw }: Token): string[] | undefined {
  const listed = type === 'html' ? KEYWORDS.exec(raw)?.[1] : undefined
  return listed === undefined ? undefined : wordsOf(listed)
}

function sectionsOf(tokens: Token[]): SectionContent[] {
  const sections: SectionContent[] = []
  // Those of a guide stand before its title.
  let before: string[] = []
  for (const token of tokens) {
    const keywords = keywordsIn(token)
    if (keywords !== undefined) {
      const section = sections.at(-1)
      if (section === undefined) before = keywords
      else section.keywords.push(...keywords)
    } else if (token.type === 'heading') {
      const { depth, text } = token as Tokens.Heading
      const title = text.replaceAll('`', '')
      sections.push({ anchor: depth === 1 ? '' : anchorOf(text), title, text: '', keywords: before })
      before = []
    } else if (token.type !== 'space') {
      const section = sections.at(-1)
      if (section === undefined) throw new Error('A guide begins with its title.')
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
