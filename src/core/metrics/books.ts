// Metrics of audits and of drifts between our books and the processor.
import { Gauge } from 'prom-client'
import { registers } from './registry.ts'

export const booksMetrics = {
  auditProblems: new Gauge({
    name: 'sluice_audit_problems',
    help: 'Problems that the last audit found, by check',
    labelNames: ['check'],
    registers,
  }),
  auditUnfinished: new Gauge({
    name: 'sluice_audit_unfinished',
    help: '1 if a check of the last audit timed out and has no result',
    labelNames: ['check'],
    registers,
  }),
  auditAge: new Gauge({
    name: 'sluice_audit_age_seconds',
    help: 'Time since the last audit ended',
    registers,
  }),
  drifts: new Gauge({
    name: 'sluice_open_drifts',
    help: 'Resources whose state at the provider differs from ours or is unknown',
    labelNames: ['state'],
    registers,
  }),
  oldestDrift: new Gauge({
    name: 'sluice_oldest_drift_seconds',
    help: 'Age of the oldest open drift',
    registers,
  }),
}
