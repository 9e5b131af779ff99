// All Grafana boards, as the text of their files in deploy/grafana.
import { board, type Row } from './board.ts'
import { DATABASE_BOARD } from './database.ts'
import { DELIVERIES_BOARD } from './deliveries.ts'
import { OVERVIEW } from './overview.ts'
import { PROVIDERS_BOARD } from './providers.ts'
import { QUEUES_BOARD } from './queues.ts'

const BOARDS: [name: string, title: string, rows: Row[]][] = [
  ['overview', 'overview', OVERVIEW],
  ['queues', 'queues', QUEUES_BOARD],
  ['providers', 'providers', PROVIDERS_BOARD],
  ['database', 'database', DATABASE_BOARD],
  ['deliveries', 'deliveries', DELIVERIES_BOARD],
]

/** The text of each board, by the name of its file. */
export function boardFiles(): Map<string, string> {
  return new Map(
    BOARDS.map(([name, title, rows]) => [
      `${name}.json`,
      `${JSON.stringify(board(name, title, rows), null, 2)}\n`,
    ]),
  )
}
