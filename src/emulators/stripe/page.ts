// What a person sees: the latest payment intents, events and faults, and where a buyer authenticates.
import { inWords } from './currencies.ts'
import type { Emulator } from './emulator.ts'
import { describeFault } from './faults.ts'
import type { Intent } from './store.ts'

const SHOWN = 25
const STYLE = `body{font:14px/1.5 system-ui,sans-serif;margin:2rem;max-width:72rem}table{border-collapse:collapse;width:100%;margin-bottom:2rem}
td,th{text-align:left;padding:.25rem .75rem .25rem 0;border-bottom:1px solid #ddd}code{font-size:12px}button{font:inherit;padding:.5rem 1rem}`

export function overviewPage(emulator: Emulator): string {
  const { store, events, effects, faults, webhooks } = emulator
  const intents = store.intents.ids
    .slice(-SHOWN)
    .toReversed()
    .map((id) => store.intents.byId.get(id)!)
  const latest = events.list.slice(-SHOWN).toReversed()
  return document(
    'Stripe emulator',
    `<p>Not Stripe: a look-alike on ${escape(emulator.url)}. ${store.intents.ids.length} payment intents, ${store.refunds.ids.length} refunds,
    ${events.list.length} events, ${effects.lines.length} effects. Webhooks go to ${escape(webhooks?.describe().url ?? 'nowhere')}.</p>
    ${table('Payment intents', ['id', 'status', 'amount', 'received', 'created', 'metadata'], intents.map(intentRow))}
    ${table(
      'Events',
      ['id', 'type', 'object', 'created', 'delivered'],
      latest.map((each) => [
        each.id,
        each.type,
        each.object.id,
        time(each.created),
        each.pending ? 'not yet' : 'yes',
      ]),
    )}
    ${table(
      'Faults',
      ['id', 'hits', 'script'],
      faults.list.map((each) => [each.id, String(each.hits), JSON.stringify(describeFault(each)['script'])]),
    )}`,
    '<meta http-equiv="refresh" content="5">',
  )
}

/** The bank's page, as it were. */
export function authenticationPage(intent: Intent): string {
  const amount = inWords(intent.amount, intent.currency)
  const form =
    intent.status === 'requires_action'
      ? `<p>Is it you who pays ${escape(amount)}?</p><form method="post">
         <button name="outcome" value="succeed">Complete authentication</button> <button name="outcome" value="fail">Fail authentication</button></form>`
      : `<p>Nothing to do: this payment has a status of ${intent.status}.</p>`
  return document('Authentication', form)
}

function intentRow(intent: Intent): string[] {
  const { id, status, amount, amount_received, currency, created, metadata } = intent
  return [
    id,
    status,
    inWords(amount, currency),
    inWords(amount_received, currency),
    time(created),
    JSON.stringify(metadata),
  ]
}

function table(title: string, heads: string[], rows: string[][]): string {
  const head = heads.map((each) => `<th>${escape(each)}</th>`).join('')
  const body = rows
    .map((row) => `<tr>${row.map((cell) => `<td><code>${escape(cell)}</code></td>`).join('')}</tr>`)
    .join('\n')
  return `<h2>${escape(title)}</h2><table><tr>${head}</tr>${body}</table>`
}

function document(title: string, body: string, head = ''): string {
  return `<!doctype html><html lang="en"><head><meta charset="utf-8"><title>${title}</title>${head}<style>${STYLE}</style></head><body><h1>${title}</h1>${body}</body></html>`
}

function time(unix_s: number): string {
  return new Date(unix_s * 1000).toISOString()
}

function escape(text: string): string {
  return text
    .replaceAll('&', '&amp;')
    .replaceAll('<', '&lt;')
    .replaceAll('>', '&gt;')
    .replaceAll('"', '&quot;')
}
