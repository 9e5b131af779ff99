// Metrics of the database: statements, transactions and partitions.
import { readFileSync } from 'node:fs'
import { Counter, Gauge, Histogram } from 'prom-client'
import { z } from 'zod'
import { ROOT } from '../root.ts'
import { SAME_IN_WORKERS, SHORT_BUCKETS, registers } from './registry.ts'

/** The file of reference times, which `npm run bench -- --write-reference` writes. */
export const REFERENCE_FILE = new URL('src/core/metrics/reference.json', ROOT)
/** The mean seconds of each step on the reference machine; `machine`: its description. */
const referenceSchema = z.object({ machine: z.string(), mean_s: z.record(z.string(), z.number()) })

export const databaseMetrics = {
  statement: new Histogram({
    name: 'sluice_statement_seconds',
    help: 'Time of an atomic step in the database, by the step',
    labelNames: ['step'],
    buckets: SHORT_BUCKETS,
    registers,
  }),
  statementReference: new Gauge({
    name: 'sluice_statement_reference_seconds',
    help: 'Mean time of the atomic step when this release was measured under load on its reference machine (two cores that also ran the load). Another machine differs by a common factor: compare the ratios of sluice_statement_seconds between steps, or alert on a factor of 10',
    labelNames: ['step'],
    registers,
  }),
  databaseSwitches: new Counter({
    name: 'sluice_database_switches_total',
    help: `Switches of the database since its installation: \`failover\`: a standby was promoted and little can be missing; \`restore\`: the database went back in time, or an operator has declared that; \`planned\`: a sealed database was moved. ${SAME_IN_WORKERS}`,
    labelNames: ['kind'],
    registers,
  }),
  jobsHeld: new Gauge({
    name: 'sluice_jobs_held',
    help: '1 if jobs wait since a switch of the database: `payouts`: payouts and refunds; `creations`: all that create something at a provider; `sms`: SMS, because the received SMS cannot be read; `all`: all jobs, until an operator releases them; `recording`: all jobs, until the switch is recorded completely',
    labelNames: ['hold'],
    registers,
  }),
  witnessUsable: new Gauge({
    name: 'sluice_witness_usable',
    help: '1 if this process could use a witness of the database, Redis or WITNESS_URL, when it last asked it; 0 if the witness did not answer, refused a write, or had a text without a valid signature. Absent for the webhooks host, which asks none, and without the variable',
    labelNames: ['witness'],
    registers,
  }),
  moved: new Counter({
    name: 'sluice_history_moved_total',
    help: 'Finished jobs, and notifications without a job, that were moved into the history',
    labelNames: ['kind'],
    registers,
  }),
  strays: new Gauge({
    name: 'sluice_stray_rows',
    help: `Rows without a partition because none was created in time; 1000 means 1000 or more. ${SAME_IN_WORKERS}`,
    labelNames: ['table'],
    registers,
  }),
  partitionsAhead: new Gauge({
    name: 'sluice_partitions_ahead_days',
    help: `Days from now for which partitions of the table exist without a gap; 0 if the present week has none. ${SAME_IN_WORKERS}`,
    labelNames: ['table'],
    registers,
  }),
  oldestSnapshot: new Gauge({
    name: 'sluice_database_oldest_snapshot_seconds',
    help: `Age of the oldest snapshots, by holder: a connection of Sluice by its name, any other session by its role, a prepared transaction, or a replication slot. Vacuum removes no row that such a snapshot may read. The five oldest; other: a holder beyond the first 30 that the worker saw; none: no other session has a snapshot. ${SAME_IN_WORKERS}`,
    labelNames: ['holder'],
    registers,
  }),
  oldestWriting: new Gauge({
    name: 'sluice_database_oldest_writing_transaction_seconds',
    help: `Age of the oldest open transactions that have written, by holder. The five oldest; other: a holder beyond the first 30 that the worker saw; none: there is no other. ${SAME_IN_WORKERS}`,
    labelNames: ['holder'],
    registers,
  }),
}

const { mean_s } = referenceSchema.parse(JSON.parse(readFileSync(REFERENCE_FILE, 'utf8')))
for (const [step, seconds] of Object.entries(mean_s))
  databaseMetrics.statementReference.set({ step }, seconds)
