// The board Database: statements, connections, transactions, partitions, audits.
import { maximum, mean, p99, perSecond, type Row } from './board.ts'

const [MEAN_TIME] = mean('sluice_statement_seconds', 'step')

export const DATABASE_BOARD: Row[] = [
  {
    title: 'Statements',
    panels: [
      {
        title: 'Statements',
        unit: 'ops',
        about: 'Statements a second by step. A statement can do the work of many requests.',
        queries: [perSecond('sluice_statement_seconds_count', 'step')],
      },
      {
        title: 'Mean time',
        unit: 's',
        about: 'The mean time of a statement, by step.',
        queries: [mean('sluice_statement_seconds', 'step')],
      },
      {
        title: '99th percentile',
        unit: 's',
        about: '99 of 100 statements of a step take less.',
        queries: [p99('sluice_statement_seconds', ['step'])],
      },
      {
        title: 'Against the reference',
        unit: 'short',
        about:
          'Mean time divided by that of this release on its reference machine. One that stands out has a new plan.',
        queries: [[`${MEAN_TIME} / max by (step) (sluice_statement_reference_seconds)`, '{{step}}']],
      },
    ],
  },
  {
    title: 'Connections and transactions',
    panels: [
      {
        title: 'Connections',
        unit: 'short',
        about: 'Connections of all processes, by pool and state.',
        queries: [['sum by (job, pool, state) (sluice_pool_connections)', '{{job}} {{pool}} {{state}}']],
      },
      {
        title: 'Wait for a connection',
        unit: 's',
        about: '99 of 100 statements wait less.',
        queries: [p99('sluice_pool_wait_seconds', ['job', 'pool'])],
      },
      {
        title: 'Oldest snapshot',
        unit: 's',
        about: 'PostgreSQL removes no row version that is younger. Above a minute, the alert is a ticket.',
        queries: [maximum('sluice_database_oldest_snapshot_seconds', 'holder')],
      },
      {
        title: 'Oldest writing transaction',
        unit: 's',
        about: 'Its locks can stop all work. Above a minute, the alert pages.',
        queries: [maximum('sluice_database_oldest_writing_transaction_seconds', 'holder')],
      },
    ],
  },
  {
    title: 'Tables and books',
    panels: [
      {
        title: 'Partitions ahead',
        unit: 'd',
        about: 'Days until the last partition of a table ends. Workers make them four weeks ahead.',
        queries: [['min by (table) (sluice_partitions_ahead_days)', '{{table}}']],
      },
      {
        title: 'Rows outside the partitions',
        unit: 'short',
        about: 'Always 0, unless no worker has run for weeks.',
        queries: [maximum('sluice_stray_rows', 'table')],
      },
      {
        title: 'Time since the last audit',
        unit: 's',
        about: 'Audits run every AUDIT_EVERY_S.',
        queries: [maximum('sluice_audit_age_seconds')],
      },
      {
        title: 'Problems of the audit',
        unit: 'short',
        about: 'Always 0. A check that timed out has no result.',
        queries: [
          ['sum(max by (check) (sluice_audit_problems)) or vector(0)', 'problems'],
          ['sum(max by (check) (sluice_audit_unfinished)) or vector(0)', 'unfinished checks'],
        ],
      },
    ],
  },
]
