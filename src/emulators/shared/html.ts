// HTML of the pages: documents, sections with tables, forms with one button.
import { createHash } from 'node:crypto'
import type { ServerResponse } from 'node:http'
import { send } from './http.ts'

const STYLE = `
:root{color-scheme:light dark;--text:#1a1f26;--soft:#56606e;--back:#fff;--panel:#f4f6f8;--line:#d9dfe6;--link:#0b5cad}
@media(prefers-color-scheme:dark){:root{--text:#e6e9ee;--soft:#a0aab8;--back:#12161b;--panel:#1b2129;--line:#313a45;--link:#7db8f5}}
*{box-sizing:border-box}
body{font:15px/1.5 system-ui,sans-serif;margin:0;padding:1.5rem;background:var(--back);color:var(--text)}
main{max-width:84rem;margin:0 auto}
h1{font-size:1.6rem;margin:0 0 .75rem}h2{font-size:1.15rem;margin:2rem 0 .5rem}
a{color:var(--link)}:focus-visible{outline:2px solid var(--link);outline-offset:2px}
.table{overflow-x:auto}table{border-collapse:collapse;width:100%}
th,td{text-align:left;vertical-align:middle;padding:.35rem 1rem .35rem 0;border-bottom:1px solid var(--line);white-space:nowrap}
th{color:var(--soft);font-weight:600;font-size:.85rem}td.long,td.lines{white-space:normal;min-width:14rem}td.acts{white-space:normal}
code{font:13px ui-monospace,monospace;white-space:pre;overflow-wrap:anywhere}td.long code{white-space:normal}td.lines code{white-space:pre-wrap}
button,select,input{font:inherit;color:inherit;background:var(--panel);border:1px solid var(--line);border-radius:6px;padding:.2rem .6rem;max-width:100%}
button{cursor:pointer}button:hover{border-color:var(--soft)}input[type=number]{width:5rem}
form{display:inline-flex;gap:.5rem;align-items:center;margin:0;white-space:nowrap}
.forms form{flex-wrap:wrap}.forms{display:flex;flex-wrap:wrap;gap:.75rem 1.5rem;align-items:center;margin:.5rem 0}.forms p{margin:0}
.none{color:var(--soft);margin:.25rem 0}
pre{font:13px ui-monospace,monospace;white-space:pre-wrap;overflow-wrap:anywhere;background:var(--panel);padding:.75rem;border-radius:6px;max-height:70vh;overflow-y:auto}
iframe{width:100%;height:60vh;border:1px solid var(--line);border-radius:6px;background:#fff;color-scheme:light}
@media(max-width:40rem){body{padding:1rem}select{max-width:11rem}
thead{display:none}tr{display:block;padding:.5rem 0;border-bottom:1px solid var(--line)}
td,td.long,td.lines{display:block;padding:.1rem 0;border:0;white-space:normal;min-width:0}td:empty{display:none}
td[data-head]:before{content:attr(data-head)": ";color:var(--soft);font-size:.85rem}td form{flex-wrap:wrap}code{white-space:pre-wrap}}`
  .trim()
  .replaceAll('\n', '')
const STYLE_HASH = createHash('sha256').update(STYLE).digest('base64')

/** A text, or HTML made by `cell`. */
export type Cell = string | { html: string }

const LONG = 80

/** A table cell with HTML. Texts in it must be escaped. */
export function cell(html: string): Cell {
  return { html }
}

/** A heading, forms and a table. A wide table scrolls; on a narrow screen its cells stack. */
export function section(title: string, heads: string[], rows: Cell[][], forms = ''): string {
  const head = heads.map((each) => `<th scope="col">${escape(each)}</th>`).join('')
  const body = rows
    .map((row) => `<tr>${row.map((each, at) => cellHtml(each, heads[at] ?? '')).join('')}</tr>`)
    .join('\n')
  const table =
    rows.length === 0
      ? '<p class="none">None.</p>'
      : `<div class="table" tabindex="0"><table><thead><tr>${head}</tr></thead><tbody>${body}</tbody></table></div>`
  return `<section><h2>${escape(title)}</h2>${forms}${table}</section>`
}

/** A form with one button. */
export function button(name: string, label: string, fields: Record<string, string>): string {
  const hidden = Object.entries(fields)
    .map(([field, value]) => `<input type="hidden" name="${field}" value="${escape(value)}">`)
    .join('')
  return `<form method="post" action="/_emulator/page/${name}">${hidden}<button>${escape(label)}</button></form>`
}

/** A labeled select field. */
export function choice(name: string, label: string, values: readonly string[]): string {
  const options = values.map((value) => `<option>${escape(value)}</option>`).join('')
  return `<label>${escape(label)} <select name="${name}">${options}</select></label>`
}

/** A complete page. `title`, `body` and `head` are HTML. */
export function document(title: string, body: string, head = ''): string {
  return `<!doctype html><html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1"><title>${title}</title>${head}<style>${STYLE}</style></head><body><main><h1>${title}</h1>${body}</main></body></html>`
}

/**
 * Sends a page that loads nothing, runs no script and cannot be framed. The forms of the page may lead to this server
 * and to `back`. `has_frames`: the page may frame pages of this server.
 */
export function sendPage(
  response: ServerResponse,
  status: number,
  page: string,
  back?: string | null,
  has_frames = false,
): void {
  // `form-action` also applies to the redirect after a form. The URL of a mobile app has a scheme but no origin.
  const leads = back ? ` ${/^https?:/.test(back) ? new URL(back).origin : new URL(back).protocol}` : ''
  const policy = `default-src 'none'; style-src 'sha256-${STYLE_HASH}'; ${has_frames ? "frame-src 'self'; " : ''}form-action 'self'${leads}; base-uri 'none'; frame-ancestors 'none'`
  send(response, status, { 'content-security-policy': policy }, page, 'text/html; charset=utf-8')
}

/** Escapes a text for HTML content and attributes. */
export function escape(text: string): string {
  return text
    .replaceAll('&', '&amp;')
    .replaceAll('<', '&lt;')
    .replaceAll('>', '&gt;')
    .replaceAll('"', '&quot;')
}

function cellHtml(each: Cell, head: string): string {
  const name = head === '' ? '' : ` data-head="${escape(head)}"`
  if (typeof each !== 'string')
    return each.html === '' ? '<td></td>' : `<td${name} class="acts">${each.html}</td>`
  if (each === '') return '<td></td>'
  const kind = each.includes('\n') ? ' class="lines"' : each.length > LONG ? ' class="long"' : ''
  return `<td${name}${kind}><code>${escape(each)}</code></td>`
}
