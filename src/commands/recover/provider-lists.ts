// Compares the providers' lists of objects with the rows of a database: what would be made again or looked up after a
// switch. Reads only.
import { ConfigError, type Config } from '#core/config.ts'
import type { Sql } from '#core/db.ts'
import { compareListed, LISTED_RESULTS, type ListedResult } from '#domain/reconciliation/listed.ts'
import { openProviderLists, type ProviderList } from '#providers/lists.ts'
import { print, terminalText } from '../print.ts'

/** The numbers of objects by result, or the reason why the list could not be read completely. */
type ListComparison = { counts: Record<ListedResult, number>; problem: string | null }
export type ListsComparison = { from: string; lists: Record<string, ListComparison> } | { problem: string }

/** Compares everything that was created at the providers since `from`. */
export async function compareProviderLists(sql: Sql, config: Config, from: string): Promise<ListsComparison> {
  const opened = open(config)
  if ('problem' in opened) return opened
  try {
    const range = { from_s: Math.floor(Date.parse(from) / 1000), to_s: Math.floor(Date.now() / 1000) }
    const lists: Record<string, ListComparison> = {}
    for (const list of opened.lists) lists[list.name] = await compareList(sql, list, range)
    return { from, lists }
  } finally {
    await opened.close()
  }
}

function open(config: Config): ReturnType<typeof openProviderLists> | { problem: string } {
  try {
    return openProviderLists(config)
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error
    return { problem: error.message }
  }
}

async function compareList(
  sql: Sql,
  { provider, read }: ProviderList,
  range: { from_s: number; to_s: number },
): Promise<ListComparison> {
  const counts: ListComparison['counts'] = { agrees: 0, differs: 0, missing: 0, foreign: 0 }
  for (let after: string | null = null; ;) {
    const page = await read({ ...range, after })
    if (page.kind !== 'done')
      return { counts, problem: terminalText(page.kind === 'declined' ? page.failure.message : page.reason) }
    for (const result of await compareListed(sql, provider, page.value.objects)) counts[result] += 1
    after = page.value.last
    if (after === null) return { counts, problem: null }
  }
}

export function printListsComparison(comparison: ListsComparison): void {
  if ('problem' in comparison) return print(`The providers were not asked: ${comparison.problem}`)
  print(`Objects at the providers since ${comparison.from}, and the rows of the backup:`)
  for (const [name, { counts, problem }] of Object.entries(comparison.lists)) {
    const texts = LISTED_RESULTS.map((result) => `${counts[result]} ${RESULT_TEXTS[result]}`)
    print(
      `${name.padEnd(16)}${problem === null ? '' : `NOT READ COMPLETELY (${problem}): `}${texts.join(', ')}`,
    )
  }
}

const RESULT_TEXTS: Record<ListedResult, string> = {
  agrees: 'agree',
  differs: 'with another state',
  missing: 'without a row',
  foreign: 'of others',
}
